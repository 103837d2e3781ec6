package watchers

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/stats"
)

// waiter is an operation that is not in a purgatory.
type waiter struct{ machine.Core }

func (*waiter) TryComplete() bool { return false }
func (*waiter) OnComplete()       {}
func (*waiter) OnExpiration()     {}

func newMap(staleLimit int) *Watchers[int] {
	return New(Config[int]{Kick: func() {}, Shards: 8, StaleLimit: staleLimit})
}

// twoKeys returns keys of different shards.
func twoKeys(w *Watchers[int]) (a, b int) {
	for b = 1; w.Shard(w.Hash(a)) == w.Shard(w.Hash(b)); b++ {
	}
	return a, b
}

// wait links a new operation under keys. It returns the operation, which the caller
// holds.
func wait(t *testing.T, w *Watchers[int], keys ...int) *machine.Machine {
	t.Helper()
	op := &waiter{}
	m := machine.Of(op)
	require.True(t, machine.Of(op).Begin(op, len(keys), 1))
	for i, key := range keys {
		require.Zero(t, w.Shard(w.Hash(key)).Watch(m, i, &Wait[int]{key, AnyPosition, w.Hash(key)}))
	}
	return m
}

// wishes settles the operations of the tests.
var wishes machine.Wishes

// end calls Leave as the holder of machines does.
func end(w *Watchers[int], key int, machines ...*machine.Machine) {
	outcomes := make([]machine.Outcome, len(machines))
	for i := range outcomes {
		outcomes[i] = machine.Forced
	}
	s := w.Shard(w.Hash(key))
	s.Leave(machines, outcomes, make([]int, len(machines)))
	for _, m := range machines {
		wishes.Settle([]*machine.Machine{m}, []machine.Outcome{machine.Forced}, nil)
	}
}

func watched(w *Watchers[int]) (watched, keys int) {
	var t Totals
	for i := range w.slots {
		w.Shard(uint64(i)).Totals(&t)
	}
	return t.Watched, t.Keys
}

// If as many watches are left as the limit allows, Leave waits for the lock.
func TestWatchesThatAreLeftAreBounded(t *testing.T) {
	w := newMap(2)
	a, b := twoKeys(w)
	ops := []*machine.Machine{wait(t, w, a, b), wait(t, w, a, b), wait(t, w, a, b)}
	busy := w.Shard(w.Hash(b))
	busy.mu.Lock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end(w, a, ops...) // waits for the lock with the third one
	}()
	for w.Stale() < 2 {
		runtime.Gosched()
	}
	for range 100 {
		runtime.Gosched()
	}
	assert.Equal(t, 2, w.Stale())
	select {
	case <-ended:
		t.Error("it did not wait")
	default:
	}
	busy.unlock()
	<-ended
	assert.Zero(t, w.Stale())
	n, keys := watched(w)
	assert.Equal(t, []int{0, 0}, []int{n, keys})
}

// Purge takes out watches that no release of a lock has taken out.
func TestPurgeTakesOutWhatNoUnlockHas(t *testing.T) {
	for _, n := range []int{1, 2*maxSteps + 3} {
		w := newMap(n)
		a, b := twoKeys(w)
		s := w.Shard(w.Hash(b))
		stays := wait(t, w, b)
		assert.Zero(t, w.Purge())
		for range n {
			m := wait(t, w, a, b)
			s.mu.Lock()
			end(w, a, m)
			s.stale.Lock()
			s.hasStale.Store(0) // so that no unlock finds them
			s.stale.Unlock()
			s.mu.Unlock()
		}
		s.hasStale.Store(1)
		require.Equal(t, n, w.Stale())
		require.Equal(t, n+1, int(s.mu.watched))
		assert.Equal(t, n, w.Purge())
		assert.Zero(t, w.Stale())
		left, keys := watched(w)
		assert.Equal(t, []int{1, 1}, []int{left, keys})
		assert.Zero(t, w.Purge(), "again")
		end(w, b, stays)
		checkInvariants(t, w)
	}
}

// Purge counts the watches that are left while it waits for a shard's lock.
func TestPurgeCountsEntriesLeftWhileItWaits(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	first, second := wait(t, w, a, b), wait(t, w, a, b)
	busy := w.Shard(w.Hash(b))
	busy.mu.Lock()
	end(w, a, first)
	purged := make(chan int)
	go func() { purged <- w.Purge() }()
	for range 1000 {
		runtime.Gosched() // so that Purge gets as far as the lock
	}
	end(w, a, second)
	busy.mu.Unlock()
	assert.Equal(t, 2, <-purged)
	assert.Zero(t, w.Stale())
}

// KAFKA-2253: a key whose list becomes empty stays in the map while a cursor stands in it.
func TestKafka2253AKeyIsKeptDuringAWalk(t *testing.T) {
	w := newMap(0)
	var ops []*machine.Machine
	for range 5 {
		ops = append(ops, wait(t, w, 7))
	}
	s := w.Shard(w.Hash(7))
	var c Cursor[int]
	out := make([]*machine.Machine, 2)
	n, more := s.Begin(&c, 7, w.Hash(7), EveryPosition, out)
	require.Equal(t, 2, n)
	require.True(t, more)
	end(w, 7, ops...)
	entries, keys := watched(w)
	assert.Equal(t, []int{0, 1}, []int{entries, keys})
	late := wait(t, w, 7)
	n, more = c.Next(out)
	assert.Zero(t, n, "who comes later makes its own second look")
	assert.False(t, more)
	n, _ = s.Begin(&c, 7, w.Hash(7), EveryPosition, out)
	assert.Equal(t, 1, n)
	assert.Same(t, late, out[0])
	end(w, 7, late)
	entries, keys = watched(w)
	assert.Equal(t, []int{0, 0}, []int{entries, keys})
}

// Neither leaving a watch nor taking it out allocates, once the slice has grown.
func TestLeavingAWatchAllocatesNothing(t *testing.T) {
	const runs, each = 20, 10
	takeOut := map[string]func(w *Watchers[int], s *Shard[int]){
		"unlock": func(_ *Watchers[int], s *Shard[int]) { s.unlock() },
		"Purge":  func(w *Watchers[int], s *Shard[int]) { s.mu.Unlock(); w.Purge() },
	}
	for name, takeOut := range takeOut {
		t.Run(name, func(t *testing.T) {
			w := newMap(2 * each)
			a, b := twoKeys(w)
			var machines []*machine.Machine
			for range (runs + 1) * each {
				machines = append(machines, wait(t, w, a, b))
			}
			home, busy := w.Shard(w.Hash(a)), w.Shard(w.Hash(b))
			outcomes := []machine.Outcome{machine.Forced}
			assert.Zero(t, testing.AllocsPerRun(runs, func() {
				busy.mu.Lock()
				for i := range each {
					home.Leave(machines[i:][:1], outcomes, make([]int, len(machines[i:][:1])))
					wishes.Settle([]*machine.Machine{machines[i]}, []machine.Outcome{machine.Forced}, nil)
				}
				machines = machines[each:]
				takeOut(w, busy)
			}))
			assert.Empty(t, machines)
			n, keys := watched(w)
			assert.Equal(t, []int{0, 0}, []int{n, keys})
		})
	}
}

// A watch may leave its list between Leave and Settle: the statistics have the outcome all the
// same.
func TestAWatchTakenOutBeforeSettleCountsTheOutcome(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 8, StaleLimit: 10, Observe: stats.Config{Keys: 64, Now: func() time.Duration { return 0 }}})
	a, b := twoKeys(w)
	two, outcomes := []*machine.Machine{wait(t, w, a, b), wait(t, w, a, b)}, []machine.Outcome{machine.Forced, machine.Cancelled}
	other := w.Shard(w.Hash(b))
	other.mu.Lock()
	w.Shard(w.Hash(a)).Leave(two, outcomes, make([]int, len(two)))
	require.Equal(t, 2, w.Stale())
	other.unlock()
	require.Zero(t, w.Stale())
	wishes.Settle(two, outcomes, nil)
	hot, _ := other.Keys(nil, nil)
	require.Len(t, hot, 1)
	assert.Equal(t, [machine.NumOutcomes]int64{machine.Forced: 1, machine.Cancelled: 1}, hot[0].Ended)
}

// The limit of a key is exact: a watch that an ended operation has left under it takes nobody's place, however many
// others were left in the shard after it.
func TestAWatchThatIsLeftTakesNoPlace(t *testing.T) {
	for _, others := range []int{0, 1, maxSteps, 2*maxSteps + 1} {
		w := New(Config[int]{Kick: func() {}, Shards: 8, StaleLimit: others + 1, KeyLimit: 1})
		a, full := twoKeys(w)
		beside := full + 1
		for w.Shard(w.Hash(beside)) != w.Shard(w.Hash(full)) {
			beside++
		}
		s := w.Shard(w.Hash(full))
		leaves := []*machine.Machine{wait(t, w, a, full)}
		other := 1000
		for range others {
			for other++; w.Shard(w.Hash(other)) == s; other++ {
			}
			leaves = append(leaves, wait(t, w, other, beside))
		}
		newcomer := &waiter{}
		m := machine.Of(newcomer)
		require.True(t, m.Begin(newcomer, 1, 1))
		at := &Wait[int]{full, AnyPosition, w.Hash(full)}
		require.Equal(t, KeyFull, s.Watch(m, 0, at))

		s.mu.Lock()
		for _, m := range leaves {
			end(w, a, m)
		}
		s.mu.Unlock() // and has not looked at what was left
		require.Equal(t, others+1, w.Stale())
		assert.Equal(t, Accepted, s.Watch(m, 0, at), "%d others", others)
		assert.Zero(t, w.Stale())
		assert.Equal(t, 1, s.Waiting(full, at.Hash))
		assert.Zero(t, s.Waiting(beside, w.Hash(beside)))
		last := &waiter{}
		require.True(t, machine.Of(last).Begin(last, 1, 1))
		assert.Equal(t, KeyFull, s.Watch(machine.Of(last), 0, at), "one place, and no second")
		checkInvariants(t, w)
	}
}
