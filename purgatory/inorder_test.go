package purgatory_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// taker waits for one item of some kinds.
type taker struct {
	operation.DelayedOperation
	from      *store
	kinds     []int
	fails     bool // TryComplete panics
	took      bool
	completed atomic.Int32
	then      func()
}

func (t *taker) TryComplete() bool {
	if t.fails {
		panic("of the user's")
	}
	t.took = t.from.take(t.kinds)
	return t.took
}

func (t *taker) OnExpiration() {}

func (t *taker) OnComplete() {
	t.completed.Add(1)
	if t.then != nil {
		t.then()
	}
}

// sideBySide reports whether there is an item and an operation that waits for it.
func sideBySide(s *store, takers []*taker) bool {
	s.Lock()
	defer s.Unlock()
	for _, t := range takers {
		if t.fails || t.Outcome() != operation.Pending {
			continue
		}
		for _, kind := range t.kinds {
			if s.items[kind] > 0 {
				return true
			}
		}
	}
	return false
}

// Whatever races, there is never an item beside an operation that waits for it once every item
// has been put and followed by a check in order. The clock is manual and there is no reaper, so
// that nothing repairs later what was lost.
func TestNoItemIsLeftOverWhateverRaces(t *testing.T) {
	for name, opts := range map[string][]purgatory.Option{
		"tried at once":      nil,
		"first in first out": {purgatory.WithFirstInFirstOut()},
		"few shards, few workers": {
			purgatory.WithFirstInFirstOut(), purgatory.WithWatcherShards(1), purgatory.WithSignalWorkers(1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				leftOverRound(t, seed, opts)
				if t.Failed() {
					t.Logf("seed %d", seed)
					return
				}
			}
		})
	}
}

func leftOverRound(t *testing.T, seed uint64, opts []purgatory.Option) {
	const kinds, steps = 3, 40
	p := onManualClock[int](t, append([]purgatory.Option{purgatory.WithPanicHandler(func(any, []byte) {})}, opts...)...)
	s := &store{items: make([]int, kinds)}
	var mu sync.Mutex
	var takers []*taker
	register := func(rnd *rand.Rand) {
		w := &taker{from: s, kinds: rnd.Perm(kinds)[:1+rnd.IntN(kinds)], fails: rnd.IntN(12) == 0}
		if rnd.IntN(4) == 0 {
			w.then = func() { p.CheckAndCompleteInOrder(w.kinds[0]) }
		}
		timeout := []time.Duration{hour, hour, hour, time.Millisecond, 2 * time.Millisecond, 0}[rnd.IntN(6)]
		_, err := p.TryCompleteElseWatch(w, timeout, w.kinds...)
		if !assert.NoError(t, err) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		takers = append(takers, w)
	}
	recent := func(rnd *rand.Rand) *taker {
		mu.Lock()
		defer mu.Unlock()
		if len(takers) == 0 {
			return &taker{}
		}
		return takers[len(takers)-1-rnd.IntN(min(len(takers), 6))]
	}
	var wg sync.WaitGroup
	for g := range uint64(6) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, g))
			for range steps {
				kind := rnd.IntN(kinds)
				switch rnd.IntN(12) {
				case 0, 1, 2:
					s.add(kind, 1+rnd.IntN(2))
					p.CheckAndCompleteInOrder(kind)
				case 3:
					s.add(kind, 1)
					p.SignalInOrder(kind)
				case 4, 5, 6, 7:
					register(rnd)
				case 8:
					p.AdvanceClock(time.Millisecond)
				case 9:
					p.Cancel(recent(rnd), nil)
				case 10:
					p.ForceComplete(recent(rnd))
				case 11:
					p.CheckAndComplete(kind)
				}
			}
		})
	}
	wg.Wait()
	assert.True(t, inTime(func() bool { return !sideBySide(s, takers) }), "an item and an operation that waits for it")
	require.NoError(t, p.Close())
	require.NoError(t, p.Shutdown(t.Context()))
	satisfied := 0
	for _, w := range takers {
		assert.EqualValues(t, 1, w.completed.Load())
		if w.Outcome() == operation.Satisfied {
			satisfied++
			assert.True(t, w.took)
		} else {
			assert.False(t, w.took, "an item that was taken for an operation that ended as %v", w.Outcome())
		}
	}
	left := 0
	for _, n := range s.items {
		left += n
	}
	assert.Equal(t, s.put, satisfied+left, "items put, and handed out or left")
}

// Closing races with everything. Who was refused after a yes gives the item back.
func TestNoItemIsLostWhenThePurgatoryCloses(t *testing.T) {
	for seed := range uint64(300) {
		p := onManualClock[int](t, purgatory.WithFirstInFirstOut())
		s := &store{items: make([]int, 1)}
		var satisfied atomic.Int64
		var wg sync.WaitGroup
		for g := range uint64(4) {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, g))
				for range 20 {
					if rnd.IntN(2) == 0 {
						s.add(0, 1)
						p.CheckAndCompleteInOrder(0)
						continue
					}
					w := &taker{from: s, kinds: []int{0}}
					w.then = func() {
						if w.Outcome() == operation.Satisfied {
							satisfied.Add(1)
						}
					}
					if _, err := p.TryCompleteElseWatch(w, hour, 0); err != nil && w.took {
						s.back(0)
					}
				}
			})
		}
		wg.Go(func() {
			for range rand.New(rand.NewPCG(seed, 99)).IntN(100) {
				runtime.Gosched()
			}
			_ = p.Close()
		})
		wg.Wait()
		require.NoError(t, p.Shutdown(t.Context()))
		require.Equal(t, s.put, int(satisfied.Load())+s.items[0], "seed %d", seed)
	}
}

// Items that one goroutine puts reach the operations strictly in order of arrival, each after
// two tries, however many wait.
func TestItemsReachManyWaitersInOrder(t *testing.T) {
	for signal, n := range map[bool]int{false: 10_000, true: 500} {
		p := onManualClock[int](t, purgatory.WithFirstInFirstOut(), purgatory.WithSignalWorkers(1))
		s := &store{items: make([]int, 1)}
		var order []int
		for i := range n {
			w := &taker{from: s, kinds: []int{0}}
			w.then = func() { order = append(order, i) }
			submit(t, p, w, hour, 0)
		}
		before := p.Stats().Checks
		for i := range n {
			s.add(0, 1)
			if !signal {
				require.Equal(t, 1, p.CheckAndCompleteInOrder(0))
				continue
			}
			p.SignalInOrder(0)
			require.True(t, inTime(func() bool { return p.NumDelayed() == n-1-i }))
		}
		require.NoError(t, p.Shutdown(t.Context()))
		require.Len(t, order, n)
		for i := range order {
			require.Equal(t, i, order[i])
		}
		assert.LessOrEqual(t, p.Stats().Checks-before, int64(2*n), "tries")
	}
}

// Many items at once, for more operations than a batch has, and one check.
func TestOneCheckHandsOutManyItems(t *testing.T) {
	p := onManualClock[int](t)
	s := &store{items: make([]int, 2)}
	for range 1000 {
		submit(t, p, &taker{from: s, kinds: []int{0, 1}}, hour, 0, 1)
	}
	s.add(0, 700)
	assert.Positive(t, p.CheckAndCompleteInOrder(0)) // a worker goes on behind the first batch
	require.True(t, inTime(func() bool { return p.NumDelayed() == 300 }))
	s.add(1, 1000)
	assert.Positive(t, p.CheckAndCompleteInOrder(1))
	require.True(t, inTime(func() bool { return p.NumDelayed() == 0 }))
	assert.Equal(t, 700, s.items[1])
	empty(t, p)
	// The same pools serve other verbs afterwards.
	for range 300 {
		submitted(t, p, 0)
	}
	before := p.Stats().Checks
	assert.Zero(t, p.CheckAndComplete(0))
	assert.EqualValues(t, 300, p.Stats().Checks-before, "a check that is not in order tries all")
	assert.Equal(t, 300, p.CancelForKey(0, nil))
	empty(t, p)
}

// A slot that each operation gives back when it has it: a chain through OnComplete.
func TestAChainOfItemsInOrderKeepsTheStackSmall(t *testing.T) {
	const n = 20_000
	p := onManualClock[int](t)
	s := &store{items: make([]int, 1)}
	var deepest, done atomic.Int64
	for i := range n {
		w := &taker{from: s, kinds: []int{0}}
		w.then = func() {
			done.Add(1)
			if i%64 == 0 {
				var pcs [8192]uintptr
				if frames := int64(runtime.Callers(0, pcs[:])); frames > deepest.Load() {
					deepest.Store(frames)
				}
			}
			s.back(0)
			p.CheckAndCompleteInOrder(0)
		}
		submit(t, p, w, hour, 0)
	}
	s.add(0, 1)
	p.CheckAndCompleteInOrder(0)
	require.True(t, inTime(func() bool { return done.Load() == n }), "%d of %d", done.Load(), n)
	assert.Less(t, deepest.Load(), int64(8000))
	empty(t, p)
}

// An operation that panics at each try, and one that ends its goroutine, keep no item from
// those behind them.
func TestAFailingOperationKeepsNoItemFromTheNext(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithPanicHandler(func(any, []byte) { runtime.Goexit() }))
	s := &store{items: make([]int, 1)}
	var leaves atomic.Bool
	inBackground(func() { _, _ = p.TryCompleteElseWatch(&taker{from: s, fails: true}, hour, 0) })()
	submit(t, p, &op{try: func() bool {
		if leaves.Load() {
			runtime.Goexit()
		}
		return false
	}}, hour, 0)
	var got []*taker
	for range 5 {
		w := &taker{from: s, kinds: []int{0}}
		submit(t, p, w, hour, 0)
		got = append(got, w)
	}
	leaves.Store(true)
	for _, w := range got {
		s.add(0, 1)
		inBackground(func() { p.CheckAndCompleteInOrder(0) })()
		require.True(t, inTime(func() bool { return w.completed.Load() == 1 }))
	}
	assert.Equal(t, 2, p.NumDelayed())
}

// A newcomer that has a key for itself is the first in line there. An item that is left for that
// key would else stay beside it; so it is tried, and may take what others wait for, too.
func TestANewcomerIsTriedWhereItIsTheFirstInLine(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithFirstInFirstOut())
	s := &store{items: make([]int, 2)}
	first := &taker{from: s, kinds: []int{0}}
	submit(t, p, first, hour, 0)
	s.add(1, 1)
	p.CheckAndCompleteInOrder(1) // nobody waits for it
	second := &taker{from: s, kinds: []int{0, 1}}
	completed, err := p.TryCompleteElseWatch(second, hour, 0, 1)
	require.NoError(t, err)
	assert.True(t, completed, "the item of kind 1 is left for it")
	assert.Equal(t, operation.Pending, first.Outcome())
}

// afterRegistration returns an operation whose try is f after the two tries of its registration.
func afterRegistration(f func(o *op) bool) *op {
	o := &op{}
	o.try = func() bool { return o.tries.Load() > 2 && f(o) }
	return o
}

// While a callback of a check in order blocks, the next check in order serves the next in line.
func TestABlockedCallbackHoldsUpNoCheckInOrder(t *testing.T) {
	p := onManualClock[string](t)
	s := &store{items: make([]int, 1)}
	g := newGate()
	first := &op{try: func() bool { return s.take([]int{0}) }, complete: g.pass}
	second := &op{try: func() bool { return s.take([]int{0}) }}
	third := &op{try: func() bool { return s.take([]int{0}) }}
	for _, o := range []*op{first, second, third} {
		submit(t, p, o, hour, "a")
	}
	s.add(0, 1)
	wait := inBackground(func() { assert.Equal(t, 1, p.CheckAndCompleteInOrder("a")) })
	<-g.entered
	s.add(0, 1)
	assert.Equal(t, 1, p.CheckAndCompleteInOrder("a"))
	ended(t, second, operation.Satisfied)
	pending(t, third)
	close(g.leave)
	wait()
	ended(t, first, operation.Satisfied)
	pending(t, third)
}

// A check in order passes over an operation whose try panics.
func TestACheckInOrderPassesOverAPanic(t *testing.T) {
	for name, c := range map[string]struct {
		asked bool // somebody asks for another try while the first one runs
		tries int32
	}{"a panic": {false, 3}} {
		t.Run(name, func(t *testing.T) {
			var told panics
			p := onManualClock[string](t, told.option())
			first := afterRegistration(func(o *op) bool {
				if o.tries.Load() > 4 {
					return false
				}
				if c.asked { // by another goroutine: a check inside a try may be left to a worker
					inBackground(func() { p.CheckAndComplete("own") })()
				}
				panic("of the try's")
			})
			submit(t, p, first, hour, "a", "own")
			next := submitted(t, p, "a")
			assert.Zero(t, p.CheckAndCompleteInOrder("a"))
			assert.Equal(t, c.tries, next.tries.Load())
			assert.EqualValues(t, 1, told.n.Load())
			assert.Zero(t, p.CheckAndCompleteInOrder("own")) // where it is the last, too
			assert.Equal(t, []int64{4, 2, 0}, []int64{int64(first.tries.Load()), int64(told.n.Load()), p.Stats().Signals}, "nobody has to walk once more")
			pending(t, first)
		})
	}
}

// An operation that was tried eight times in a row, and is to be tried again, is tried by a worker,
// wherever it stands in the line of its key.
func TestAWorkerTriesWhoIsNotTheFirstInLine(t *testing.T) {
	for name, check := range map[string]func(p *stringPurgatory){
		"check":    func(p *stringPurgatory) { p.CheckAndComplete("own") },
		"in order": func(p *stringPurgatory) { p.CheckAndCompleteInOrder("own") },
		"signal":   func(p *stringPurgatory) { p.SignalInOrder("own") },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			first := submitted(t, p, "a")
			o := afterRegistration(func(o *op) bool {
				if o.tries.Load() < 100 {
					inBackground(func() { p.CheckAndComplete("own") })()
				}
				return o.tries.Load() >= 100
			})
			submit(t, p, o, hour, "a", "own")
			check(p)
			eventually(t, func() bool { return o.completed.Load() == 1 }, "a worker goes on")
			ended(t, o, operation.Satisfied)
			pending(t, first)
		})
	}
}

// An operation of a purgatory with WithFirstInFirstOut that is asked during its first try to end, or
// to be tried again, does so.
func TestWhatIsAskedDuringTheFirstTryIsDoneInLine(t *testing.T) {
	for name, c := range map[string]struct {
		ask     func(p *stringPurgatory, o *op)
		outcome operation.Outcome
		cause   error
	}{
		"cancel":   {func(p *stringPurgatory, o *op) { p.Cancel(o, errGone) }, operation.Cancelled, errGone},
		"force":    {func(p *stringPurgatory, o *op) { p.ForceComplete(o) }, operation.Forced, nil},
		"nothing":  {func(*stringPurgatory, *op) {}, operation.Pending, nil},
		"come met": {func(_ *stringPurgatory, o *op) { o.try = func() bool { return true } }, operation.Satisfied, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, purgatory.WithFirstInFirstOut())
			o := &op{}
			o.try = func() bool { c.ask(p, o); return false }
			completed, err := p.TryCompleteElseWatch(o, hour, "a", "b")
			require.NoError(t, err)
			assert.Equal(t, c.outcome != operation.Pending, completed)
			if c.outcome == operation.Pending {
				pending(t, o)
				p.ForceComplete(o)
			} else {
				ended(t, o, c.outcome)
			}
			assert.Equal(t, c.cause, o.Cause())
			empty(t, p)
			conserved(t, p)
		})
	}
}

// A newcomer that is the first in line for one of its keys is tried there, though a callback of the
// walk over another of its keys ends the goroutine that registers.
func TestAGoexitInTheWalkOfANewcomerSkipsNoKey(t *testing.T) {
	for name, callback := range misdeeds {
		t.Run(name, func(t *testing.T) {
			var told panics
			p := onManualClock[string](t, purgatory.WithFirstInFirstOut(), told.option())
			var met atomic.Bool
			first := until(&met)
			first.complete = callback
			submit(t, p, first, hour, "a")
			second, other := submitted(t, p, "a"), submitted(t, p, "b")
			newcomer := &op{try: func() bool { return true }}
			met.Store(true)
			inBackground(func() { _, _ = p.TryCompleteElseWatch(newcomer, hour, "a", "b", "own") })()
			endsSoon(t, newcomer, operation.Satisfied) // it is the first under the last of its keys only
			endsSoon(t, first, operation.Satisfied)
			pending(t, second)
			pending(t, other)
		})
	}
}

// However many checks in order there were before, one that is alone leaves nothing to a worker.
func TestACheckInOrderThatIsAloneIsMadeByItsCaller(t *testing.T) {
	for name, meanwhile := range map[string]func(p *stringPurgatory){
		"alone": func(*stringPurgatory) {},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			for range 20_000 {
				o := afterRegistration(func(*op) bool { meanwhile(p); return true })
				submit(t, p, o, hour, "a")
				require.Equal(t, 1, p.CheckAndCompleteInOrder("a"))
			}
			assert.Zero(t, p.Stats().Signals, "nothing is left to a worker")
			empty(t, p)
		})
	}
}

// A newcomer that leaves its walk to a check in order that is under way has not completed.
func TestANewcomerBesideACheckInOrderHasNotCompleted(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithFirstInFirstOut())
	g := newGate()
	first := afterRegistration(func(o *op) bool {
		if o.tries.Load() == 3 {
			g.pass()
		}
		return false
	})
	submit(t, p, first, hour, "a")
	wait := inBackground(func() { p.CheckAndCompleteInOrder("a") })
	<-g.entered
	newcomer := &op{}
	submit(t, p, newcomer, hour, "a") // not completed
	pending(t, newcomer)
	close(g.leave)
	wait()
	pending(t, newcomer)
}

// Of the tries of checks, those that said no were wasted.
func TestWastedChecksAreThoseThatSaidNo(t *testing.T) {
	for name, check := range map[string]func(p *stringPurgatory) int{
		"check":    func(p *stringPurgatory) int { return p.CheckAndComplete("a") },
		"in order": func(p *stringPurgatory) int { return p.CheckAndCompleteInOrder("a") },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, purgatory.WithKeyStats(8))
			for range 200 {
				submit(t, p, afterRegistration(func(*op) bool { return true }), hour, "a")
			}
			for range 3 {
				submitted(t, p, "a")
			}
			wasted := map[string]int64{"in order": 1}[name]
			if wasted == 0 {
				wasted = 3
			}
			assert.Positive(t, check(p))
			eventually(t, func() bool { return p.NumDelayed() == 3 && p.Stats().Checks == 200+wasted }, "in order, a worker goes on behind a batch")
			s := p.Stats()
			assert.Equal(t, []int64{200 + wasted, wasted}, []int64{s.Checks, s.WastedChecks})
			hot := p.Inspect(1, 0).Hot
			require.Len(t, hot, 1)
			assert.Equal(t, []int64{200 + wasted, wasted}, []int64{hot[0].Tries, hot[0].Wasted})
			assert.Zero(t, check(p))
			s = p.Stats()
			assert.Equal(t, []int64{200 + 2*wasted, 2 * wasted}, []int64{s.Checks, s.WastedChecks})
		})
	}
}

// A try that unwinds has returned, for those who count what runs.
func TestATryThatUnwindsDoesNotRunAnyMore(t *testing.T) {
	for name, misdeed := range misdeeds {
		t.Run(name, func(t *testing.T) {
			var told panics
			p := onManualClock[string](t, told.option(), purgatory.WithSlowCallback(hour))
			o := afterRegistration(func(*op) bool { misdeed(); return false })
			submit(t, p, o, hour, "a")
			inBackground(func() { p.CheckAndComplete("a") })()
			eventually(t, func() bool { return p.Stats().Running == 0 }, "the walk ends")
			assert.Zero(t, p.Stats().OldestRunning)
			pending(t, o)
		})
	}
}

// Operations that are ready at once, submitted by a callback on a deep stack, are answered once each
// by workers.
func TestOperationsThatAreReadyOnADeepStackAreAnsweredOnce(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithWatcherShards(1))
	held := purgatory.HoldWorkers(t, p)
	var all []*op
	var atDepth func(n int)
	atDepth = func(n int) {
		if n > 0 {
			atDepth(n - 1)
			return
		}
		for range 10 {
			o := &op{try: func() bool { return true }}
			all = append(all, o)
			completed, err := p.TryCompleteElseWatch(o, hour, "a")
			assert.NoError(t, err)
			assert.True(t, completed)
			assert.Equal(t, operation.Satisfied, o.Outcome())
			assert.Zero(t, o.completed.Load(), "its callback is left to a worker")
		}
	}
	o := &op{complete: func() { atDepth(500) }}
	submit(t, p, o, hour, "a")
	require.True(t, p.ForceComplete(o))
	held.Release()
	require.NoError(t, p.Shutdown(t.Context()))
	for _, o := range all {
		ended(t, o, operation.Satisfied)
	}
}

// A check in order passes over those whose tries panic, also where operations wait for positions.
func TestACheckInOrderOfPositionsPassesOverPanics(t *testing.T) {
	var told panics
	p := onManualClock[string](t, told.option())
	var last *op
	for position := range 5 {
		last = afterRegistration(func(o *op) bool {
			if o != last {
				panic("each time")
			}
			return true
		})
		_, err := p.TryCompleteElseWatchAt(last, hour, purgatory.KeyPosition[string]{Key: "a", Position: int64(position)})
		require.NoError(t, err)
	}
	assert.Equal(t, 1, p.CheckAndCompleteInOrder("a"))
	ended(t, last, operation.Satisfied)
	assert.Equal(t, 4, p.NumDelayed())
}

// In a purgatory whose operations wait their turn, one that is cancelled while it is registered costs
// the others no try.
func TestACancelledRegistrationTriesNobodyInLine(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithFirstInFirstOut())
	o, waits := &op{}, &op{}
	var tries int32
	o.try = func() bool {
		inBackground(func() { submit(t, p, waits, hour, "a") })() // inside a try, a worker may try it once more
		tries = waits.tries.Load()
		p.Cancel(o, errGone) // this try carries it out
		return false
	}
	completed, err := p.TryCompleteElseWatch(o, hour, "a")
	require.NoError(t, err)
	assert.True(t, completed)
	ended(t, o, operation.Cancelled)
	pending(t, waits)
	assert.Equal(t, tries, waits.tries.Load())
}

// Other checks in order that come all the time do not keep the caller of one: a worker goes on.
func TestOthersDoNotKeepTheCallerOfACheckInOrder(t *testing.T) {
	const all = 300
	p := onManualClock[string](t)
	o := afterRegistration(func(o *op) bool {
		if o.tries.Load() < all {
			inBackground(func() { p.CheckAndCompleteInOrder("a") })()
		}
		return o.tries.Load() == all
	})
	submit(t, p, o, hour, "a")
	p.CheckAndCompleteInOrder("a")
	eventually(t, func() bool { return o.completed.Load() == 1 }, "workers go on")
	ended(t, o, operation.Satisfied)
	assert.Positive(t, p.Stats().Signals, "the caller has left the rest to a worker")
}

// A check in order of a key for which nobody waits, but in whose list another check stands, keeps no
// turn: the next one serves who comes later.
func TestACheckInOrderThatFindsNobodyKeepsNoTurn(t *testing.T) {
	p := onManualClock[string](t)
	g := newGate()
	blocks := &op{complete: g.pass}
	submit(t, p, blocks, hour, "a")
	var rest []*op
	for range 200 { // more than a walk takes at once, so that it stands in the list
		rest = append(rest, submitted(t, p, "a"))
	}
	wait := inBackground(func() { p.CancelForKey("a", nil) })
	<-g.entered
	for _, o := range rest {
		p.ForceComplete(o)
	}
	require.Zero(t, p.NumDelayed())
	assert.Zero(t, p.CheckAndCompleteInOrder("a"))
	assert.Zero(t, p.Stats().Signals, "nothing is left to a worker")
	late := afterRegistration(func(*op) bool { return true })
	submit(t, p, late, hour, "a")
	assert.Equal(t, 1, p.CheckAndCompleteInOrder("a"))
	ended(t, late, operation.Satisfied)
	close(g.leave)
	wait()
}

// Walks in order take turns.

// slowTaker is a taker whose TryComplete, when the test says so, returns late.
type slowTaker struct {
	taker
	late *gate // entered when TryComplete has found nothing
}

func (t *slowTaker) TryComplete() bool {
	took := t.taker.TryComplete()
	if g := t.late; g != nil && !took {
		t.late = nil
		g.pass()
	}
	return took
}

// One goroutine checks. A newcomer registers and tries the first in line; the item and its check
// come while that try returns. The first in line gets the item all the same.
func TestARegistrationLetsNobodyOvertakeTheFirstInLine(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithFirstInFirstOut())
	s := &store{items: make([]int, 1)}
	first := &slowTaker{taker: taker{from: s, kinds: []int{0}}}
	submit(t, p, first, hour, 0)
	g := newGate()
	first.late = g
	second := &taker{from: s, kinds: []int{0}}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = p.TryCompleteElseWatch(second, hour, 0) })
	<-g.entered
	s.add(0, 1)
	p.CheckAndCompleteInOrder(0)
	close(g.leave)
	wg.Wait()
	require.True(t, inTime(func() bool { return first.Outcome() == operation.Satisfied })) // by a worker
	assert.Equal(t, operation.Pending, second.Outcome())
}

// A panic handler that blocks holds up its own goroutine, and not the line.
func TestAPanicHandlerThatBlocksDoesNotStopTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := onManualClock[string](t, purgatory.WithPanicHandler(func(any, []byte) { <-release }))
		first := afterRegistration(func(*op) bool { panic("of the try's") })
		submit(t, p, first, hour, "a")
		met := false
		second := afterRegistration(func(*op) bool { return met })
		submit(t, p, second, hour, "a")
		go p.CheckAndCompleteInOrder("a") // passes over the first, and the second says no
		synctest.Wait()
		met = true
		go p.CheckAndCompleteInOrder("a")
		synctest.Wait()
		assert.Equal(t, operation.Satisfied, second.Outcome())
		close(release)
	})
}

// The callbacks of an operation that expires never run on the goroutine that registers it, and so not in the check in order
// that a registration makes.
func TestARegistrationInLineDoesNotExpireItsOwnOperation(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithFirstInFirstOut())
	p.AdvanceClock(time.Second)
	o := &op{}
	completed, err := p.TryCompleteElseWatch(o, 0, "line")
	require.NoError(t, err)
	assert.False(t, completed)
	assert.Equal(t, operation.Pending, o.Outcome())
	assert.EqualValues(t, 2, o.tries.Load())
	p.AdvanceClock(time.Second)
	ended(t, o, operation.Expired)
}

// A check in order stops at an operation that says no also if others ask for its tries without end, so that a worker goes on
// with it.
func TestACheckInOrderStopsAtOneThatIsAskedForMore(t *testing.T) {
	p := onManualClock[string](t)
	var checking, ready atomic.Bool
	first := &op{}
	first.try = func() bool {
		if checking.Load() {
			inBackground(func() { p.CheckAndComplete("b") })() // finds it busy
		}
		return false
	}
	submit(t, p, first, hour, "b", "a")
	second := until(&ready)
	submit(t, p, second, hour, "a")
	before := first.tries.Load()
	checking.Store(true)
	ready.Store(true)
	second.complete = func() { checking.Store(false) }
	assert.Zero(t, p.CheckAndCompleteInOrder("a"))
	checking.Store(false)
	assert.GreaterOrEqual(t, first.tries.Load()-before, int32(8))
	pending(t, second)
	p.ForceComplete(first)
	p.ForceComplete(second)
}
