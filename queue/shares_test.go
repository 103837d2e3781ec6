package queue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

// formula is start-time fair queueing with tags of flows and the virtual time of a line (see line): it forgets nothing while
// anybody waits, and looks at everybody.
type formula struct {
	tags   int
	flows  map[string]*modelFlow
	newest bool
	aging  time.Duration
}

type modelFlow struct {
	tag      float64
	since    int
	requests []request
}

type request struct {
	id      int
	arrival time.Duration
	class   int
	cost    float64
}

func (m *formula) waiting() (n int) {
	for _, f := range m.flows {
		n += len(f.requests)
	}
	return n
}

func (m *formula) arrive(tenant string, r request) {
	if m.waiting() == 0 {
		m.flows = map[string]*modelFlow{}
	}
	virtual := 0.0
	if next := m.next(); next != nil {
		virtual = next.tag
	}
	f := m.flows[tenant]
	if f == nil {
		f = new(modelFlow)
		m.flows[tenant] = f
	}
	if len(f.requests) == 0 {
		m.tags++
		f.tag, f.since = max(f.tag, virtual), m.tags
	}
	f.requests = append(f.requests, r)
}

func (m *formula) leave(id int) {
	for _, f := range m.flows {
		f.requests = slices.DeleteFunc(f.requests, func(r request) bool { return r.id == id })
	}
}

// next returns the flow that is served next.
func (m *formula) next() (best *modelFlow) {
	for _, f := range m.flows {
		if len(f.requests) > 0 && (best == nil || f.tag < best.tag || f.tag == best.tag && f.since < best.since) {
			best = f
		}
	}
	return best
}

// serve takes the next one out.
func (m *formula) serve() request {
	best := m.next()
	at := 0
	for i, r := range best.requests {
		first := best.requests[at]
		rank := func(r request) time.Duration { return r.arrival + time.Duration(r.class)*m.aging }
		switch {
		case m.newest && r.class <= first.class, !m.newest && rank(r) < rank(first),
			!m.newest && rank(r) == rank(first) && r.class < first.class:
			at = i
		}
	}
	r := best.requests[at]
	best.requests = slices.Delete(best.requests, at, at+1)
	m.tags++
	best.tag, best.since = best.tag+r.cost, m.tags
	return r
}

const (
	sharesRuns  = 300
	sharesSteps = 400
)

// sharing is one run: its random choices, and a queue beside its model.
type sharing struct {
	*rand.Rand
	formula
	clock   *timer.ManualTimer
	classed bool
	last    int // id
}

func newSharing(seed uint64) *sharing {
	s := &sharing{Rand: rand.New(rand.NewPCG(seed, 7))}
	s.newest = s.IntN(4) == 0
	s.aging = time.Duration(1+s.IntN(3)) * time.Second
	s.classed = s.IntN(2) == 0
	return s
}

// place draws a place, and tells the model.
func (s *sharing) place() Place {
	p := Place{Tenant: fmt.Sprintf("t%d", s.IntN(1+s.IntN(200))), Cost: []float64{0.25, 0.5, 1, 1, 1, 2, 3, 100}[s.IntN(8)]}
	if s.IntN(5) == 0 {
		p.Tenant = ""
	}
	if s.classed {
		p.Class = s.IntN(classes)
	}
	if s.IntN(3) == 0 {
		s.clock.AdvanceClock(time.Duration(s.IntN(1500)) * time.Millisecond)
	}
	s.last++
	s.arrive(p.Tenant, request{s.last, s.clock.Now(), p.Class, p.Cost})
	return p
}

func TestTakersAreServedByTheFormula(t *testing.T) {
	for seed := range uint64(sharesRuns) {
		s := newSharing(seed)
		q, clock := manual[int](t, WithAging(s.aging), WithNewestFirst(s.newest, false))
		s.clock = clock
		waiters := map[int]*Waiter[int]{}
		growth := s.IntN(4)
		for step := range sharesSteps {
			switch n := s.IntN(10); {
			case n < 3+growth || len(waiters) == 0:
				p := s.place()
				waiters[s.last] = started(t, q, p)
			case n == 9:
				for id := 1 + s.IntN(s.last); id <= s.last; id++ {
					if w := waiters[id]; w != nil {
						require.True(t, w.Stop())
						s.leave(id)
						delete(waiters, id)
						break
					}
				}
			default:
				require.NoError(t, q.Put(step))
				want := s.serve()
				if !over(waiters[want.id]) {
					for id, w := range waiters {
						require.False(t, over(w), "seed %d, step %d: %d is served, not %d", seed, step, id, want.id)
					}
				}
				delete(waiters, want.id)
			}
			if step%64 == 0 {
				check(t, q)
			}
		}
		for len(waiters) > 0 {
			require.NoError(t, q.Put(0))
			want := s.serve().id
			require.True(t, over(waiters[want]), "seed %d: %d is not served", seed, want)
			delete(waiters, want)
		}
		check(t, q)
	}
}

func TestItemsAreHandedOutByTheFormula(t *testing.T) {
	for seed := range uint64(sharesRuns) {
		s := newSharing(seed)
		q, clock := manual[int](t, WithAging(s.aging), WithNewestFirst(false, s.newest))
		s.clock = clock
		growth := s.IntN(4)
		for step := range sharesSteps {
			if s.IntN(10) < 4+growth || s.waiting() == 0 {
				p := s.place()
				require.NoError(t, q.Put(s.last, p))
			} else {
				item, err := q.Take(background, 0)
				require.NoError(t, err)
				require.Equal(t, s.serve().id, item, "seed %d, step %d", seed, step)
			}
			if step%64 == 0 {
				check(t, q)
			}
		}
		items := q.Close(nil)
		for _, item := range items {
			require.Equal(t, s.serve().id, item, "seed %d, at the end", seed)
		}
		assert.Zero(t, s.waiting())
		check(t, q)
	}
}

// flood has the loud tenants put 1,000 requests each before the quiet one has one, and returns how many of theirs come
// before each of the quiet one's.
func flood(t *testing.T, loud int) (before []int) {
	q, _ := manual[int](t)
	for range 1000 {
		for i := range loud {
			started(t, q, Place{Tenant: fmt.Sprint("loud ", i)})
		}
	}
	served := 0
	serve := func() {
		require.NoError(t, q.Put(0))
		served++
	}
	for range 50 * loud { // they have had much
		serve()
	}
	for range 100 {
		w, from := started(t, q, Place{Tenant: "quiet"}), served
		for serve(); !over(w); serve() {
			require.Less(t, served-from, 10_000)
		}
		before = append(before, served-from-1)
		for i := range 2 * loud { // ten of theirs come for each of its
			started(t, q, Place{Tenant: fmt.Sprint("loud ", i%loud)})
			serve()
		}
	}
	return before
}

func TestAFloodDelaysAQuietTenantByOneEach(t *testing.T) {
	assert.LessOrEqual(t, slices.Max(flood(t, 1)), 1)
	assert.LessOrEqual(t, slices.Max(flood(t, 20)), 21)
}

func TestSharesAreAsTheWeights(t *testing.T) {
	q, _ := manual[int](t)
	weights := map[string]int{"a": 1, "b": 2, "c": 3, "": 4}
	waiters := map[string][]*Waiter[int]{}
	for tenant, weight := range weights {
		for range 1000 {
			waiters[tenant] = append(waiters[tenant], started(t, q, Place{Tenant: tenant, Cost: 1 / float64(weight)}))
		}
	}
	for range 1000 {
		require.NoError(t, q.Put(0))
	}
	for tenant, weight := range weights {
		served := 0
		for _, w := range waiters[tenant] {
			if over(w) {
				served++
			}
		}
		assert.InDelta(t, 100*weight, served, 1, "tenant %q", tenant)
	}
}

func TestARequestThatLeavesChargesNobody(t *testing.T) {
	q, _ := manual[int](t)
	other := started(t, q, Place{Tenant: "b"})
	for range 100 {
		require.True(t, started(t, q, Place{Tenant: "a", Cost: 1000}).Stop())
	}
	first, second := started(t, q, Place{Tenant: "a"}), started(t, q, Place{Tenant: "b"})
	for _, w := range []*Waiter[int]{other, first, second} {
		require.NoError(t, q.Put(0))
		gets(t, w, 0)
	}
	check(t, q)
}

// The line is never empty.
func TestTenantsThatComeAndGoAreForgotten(t *testing.T) {
	q, _ := manual[int](t)
	for range 3 {
		started(t, q, Place{Tenant: "stays"})
	}
	most := 0
	for i := range 10_000 {
		w := started(t, q, Place{Tenant: fmt.Sprint("tenant ", i), Cost: 100}) // it owes for 100 rounds
		started(t, q, Place{Tenant: "stays"})
		if i%3 == 0 {
			require.True(t, w.Stop())
			require.NoError(t, q.Put(i))
		} else {
			for !over(w) {
				require.NoError(t, q.Put(i))
			}
		}
		require.GreaterOrEqual(t, q.mu.waiting, 3)
		most = max(most, len(q.mu.main.line.flows))
	}
	assert.Greater(t, most, 50, "they owe")
	assert.LessOrEqual(t, most, 300, "tenants that are remembered")
	check(t, q)
}

// With a bound on those who wait, tenants are counted; one of whom nobody waits is not.
func TestTenantsThatAreCountedAreForgotten(t *testing.T) {
	q, _ := manual[int](t, WithMaxWaiting(10))
	for i := range 100 {
		place := Place{Tenant: fmt.Sprint("tenant ", i)}
		served, left := started(t, q, place), started(t, q, place)
		require.Equal(t, map[string]int{place.Tenant: 2}, q.mu.tenants)
		require.NoError(t, q.Put(i))
		require.True(t, over(served))
		require.True(t, left.Stop())
	}
	assert.Empty(t, q.mu.tenants)
	assert.LessOrEqual(t, len(q.mu.main.line.flows), 1)
}

// Nothing comes: the line stands.
func TestTenantsThatLeaveALineThatStandsAreForgotten(t *testing.T) {
	q, _ := manual[int](t)
	for _, tenant := range []string{"a", "b"} {
		started(t, q, Place{Tenant: tenant})
	}
	for i := range 1000 {
		require.True(t, started(t, q, Place{Tenant: fmt.Sprint("tenant ", i)}).Stop())
		require.LessOrEqual(t, len(q.mu.main.line.flows), 2)
	}
	check(t, q)
}

// One new tenant comes after the other.
func TestNewTenantsDoNotStarveThoseWhoWait(t *testing.T) {
	q, _ := manual[int](t)
	started(t, q, Place{Tenant: "waits", Cost: 1000})
	require.NoError(t, q.Put(0)) // it owes
	started(t, q, Place{Tenant: "another"})
	w := started(t, q, Place{Tenant: "waits"})
	for i := 0; !over(w); i++ {
		started(t, q, Place{Tenant: fmt.Sprint("tenant ", i)})
		require.NoError(t, q.Put(0))
		require.LessOrEqual(t, i, 3)
	}
}

// Of class c, one that comes is behind all that are there, and behind those of better classes that come in c × handicap.
func TestNobodyIsOvertakenByThoseWhoCameMuchLater(t *testing.T) {
	const handicap = time.Second
	q, clock := manual[int](t, WithAging(handicap))
	for range 20 {
		started(t, q)
	}
	low := started(t, q, Place{Class: 1})
	served := 0
	for at := time.Duration(0); !over(low); at += 100 * time.Millisecond {
		started(t, q) // one every 100 ms, for ever
		clock.AdvanceClock(100 * time.Millisecond)
		require.NoError(t, q.Put(0))
		served++
		require.LessOrEqual(t, served, 1000)
	}
	backlog, inHandicap := 20, int(handicap/(100*time.Millisecond))+1 // the first comes at once, the last when it has passed
	assert.LessOrEqual(t, served, backlog+inHandicap+1)
	assert.Greater(t, served, backlog, "a better class comes first")
}

// The longest handicap makes classes strict, however much later one of a better class comes.
func TestTheLongestHandicapIsAStrictOrderOfClasses(t *testing.T) {
	for _, handicap := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2, math.MaxInt64 / (classes - 1), math.MaxInt64 / classes} {
		q, clock := manual[int](t, WithAging(handicap))
		var waiters []*Waiter[int]
		for class := classes - 1; class >= 0; class-- {
			waiters = append(waiters, started(t, q, Place{Class: class}))
			clock.AdvanceClock(365 * 24 * time.Hour)
		}
		for i := len(waiters) - 1; i >= 0; i-- {
			require.NoError(t, q.Put(i))
			gets(t, waiters[i], i)
		}
		check(t, q)
	}
}

// Without aging, lower classes come strictly first, also in the line that is not the newest first.
func TestClassesAreStrictWithoutAging(t *testing.T) {
	for _, newest := range []struct{ takers, items bool }{{true, false}, {false, true}, {true, true}} {
		q, clock := manual[int](t, WithNewestFirst(newest.takers, newest.items))
		waiters := make([]*Waiter[int], classes)
		for class := classes - 1; class >= 0; class-- {
			waiters[class] = started(t, q, Place{Class: class})
			clock.AdvanceClock(time.Second)
		}
		assert.Equal(t, classes*time.Second, q.Stats().Oldest, "it is in the last class")
		for class, w := range waiters {
			require.NoError(t, q.Put(class))
			gets(t, w, class)
		}
		for class := classes - 1; class >= 0; class-- {
			require.NoError(t, q.Put(class, Place{Class: class}))
			clock.AdvanceClock(time.Second)
		}
		for class := range classes {
			item, err := q.Take(background, 0)
			require.NoError(t, err)
			assert.Equal(t, class, item)
		}
		check(t, q)
	}
}

func TestEqualRanksAreServedByClassAndArrival(t *testing.T) {
	q, clock := manual[int](t, WithAging(time.Second))
	low := []*Waiter[int]{started(t, q, Place{Class: 1}), started(t, q, Place{Class: 1})}
	clock.AdvanceClock(time.Second)
	high := []*Waiter[int]{started(t, q), started(t, q)}
	for _, w := range slices.Concat(high, low) {
		require.NoError(t, q.Put(0))
		gets(t, w, 0)
	}
}

func TestTheNewestIsServedFirst(t *testing.T) {
	q, _ := manual[int](t, WithNewestFirst(true, true))
	a, b, c := started(t, q), started(t, q, Place{Class: 2}), started(t, q)
	for _, w := range []*Waiter[int]{c, a, b} {
		require.NoError(t, q.Put(0))
		gets(t, w, 0)
	}
	for i := range 3 {
		require.NoError(t, q.Put(i))
	}
	for i := range 3 {
		item, err := q.Take(background, 0)
		require.NoError(t, err)
		assert.Equal(t, 2-i, item)
	}
}

// A cost that is so high that others vanish beside it starves nobody.
func TestExtremeCostsStarveNobody(t *testing.T) {
	for _, cost := range []float64{1e-300, 1e300, 1.7e308} {
		q, _ := manual[int](t)
		for range 2 {
			for _, tenant := range []string{"a", "b"} {
				w := started(t, q, Place{Tenant: tenant, Cost: cost})
				require.NoError(t, q.Put(0))
				gets(t, w, 0)
			}
		}
		a := []*Waiter[int]{started(t, q, Place{Tenant: "a", Cost: cost}), started(t, q, Place{Tenant: "a", Cost: cost}), started(t, q, Place{Tenant: "a"})}
		b := started(t, q, Place{Tenant: "b"})
		for range 4 {
			require.NoError(t, q.Put(0))
		}
		for _, w := range append(a, b) {
			gets(t, w, 0)
		}
		check(t, q)
	}
}
