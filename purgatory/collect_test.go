package purgatory_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// A purgatory that looks at a long line only up to a position leaves the rest of it alone, also
// while a callback of an earlier batch blocks.
func TestACheckThatStopsKeepsNoOperation(t *testing.T) {
	p := onManualClock[string](t)
	s := &store{items: make([]int, 1)}
	g := newGate()
	submit(t, p, &op{try: func() bool { return s.take([]int{0}) }, complete: g.pass}, hour, "a")
	all := submittedWeakly(t, p, new(atomic.Bool), 5, "a")
	s.add(0, 1)
	wait := inBackground(func() { p.CheckAndCompleteInOrder("a") })
	<-g.entered
	forceAll(t, p, all)
	gone(t, all)
	close(g.leave)
	wait()
	runtime.KeepAlive(p)
}

// A check inside a TryComplete that is left to a worker is made by it, and nothing of it is kept
// meanwhile.
func TestANestedCheckThatIsLeftKeepsNothing(t *testing.T) {
	for name, check := range map[string]func(p *stringPurgatory) int{
		"check":    func(p *stringPurgatory) int { return p.CheckAndComplete("b") },
		"in order": func(p *stringPurgatory) int { return p.CheckAndCompleteInOrder("b") },
		"up to":    func(p *stringPurgatory) int { return p.CheckAndCompleteUpTo("b", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, purgatory.WithWatcherShards(1))
			held := purgatory.HoldWorkers(t, p)
			all := submittedWeakly(t, p, new(atomic.Bool), 5, "b")
			nests := afterRegistration(func(*op) bool {
				assert.Zero(t, check(p))
				return false
			})
			submit(t, p, nests, hour, "a")
			p.CheckAndComplete("a")
			require.True(t, held.Queued(), "it is left to a worker")
			forceAll(t, p, all)
			gone(t, all)
			late := afterRegistration(func(*op) bool { return true })
			submit(t, p, late, hour, "b")
			if name == "in order" {
				assert.Equal(t, 1, p.CheckAndCompleteInOrder("b"), "the turn has ended")
			} else {
				assert.Equal(t, 1, p.CheckAndComplete("b"))
			}
			held.Work()
			ended(t, late, operation.Satisfied)
		})
	}
}

// Operations that a worker has answered are not kept while it runs the callback of another one that
// has ended with them.
func TestABlockedWorkerKeepsNoAnsweredOperation(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithCallbacksOnWorkers())
	held := purgatory.HoldWorkers(t, p)
	all := submittedWeakly(t, p, new(atomic.Bool), 5, "a")
	g := newGate()
	submit(t, p, &op{complete: g.pass}, hour, "a")
	submitted(t, p, "a")
	require.Equal(t, 7, p.CancelForKey("a", nil))
	wait := inBackground(held.Work)
	<-g.entered
	gone(t, all)
	close(g.leave)
	wait()
	held.Release()
	require.NoError(t, p.Shutdown(t.Context()))
}

// Tests that the purgatory does not refer to operations that have ended.

// submittedWeakly registers n operations and returns weak pointers only.
//
//go:noinline
func submittedWeakly(t *testing.T, p *stringPurgatory, met *atomic.Bool, n int, keys ...string) []weak.Pointer[op] {
	t.Helper()
	var all []weak.Pointer[op]
	for range n {
		o := until(met)
		submit(t, p, o, time.Minute, keys...)
		all = append(all, weak.Make(o))
	}
	return all
}

// gone asserts that one garbage collection frees all. A second collection would also free
// what a sync.Pool refers to, and so hide a pool whose items are not cleared.
func gone(t *testing.T, all []weak.Pointer[op]) {
	t.Helper()
	runtime.GC()
	left := 0
	for _, o := range all {
		if o.Value() != nil {
			left++
		}
	}
	assert.Zero(t, left, "operations are still referred to, of %d", len(all))
}

func TestAnEndedOperationCanBeCollected(t *testing.T) {
	ends := map[string]func(p *stringPurgatory, met *atomic.Bool){
		"check":  func(p *stringPurgatory, met *atomic.Bool) { met.Store(true); p.CheckAndComplete("a") },
		"cancel": func(p *stringPurgatory, _ *atomic.Bool) { p.CancelForKey("b", errGone) },
		"expire": func(p *stringPurgatory, _ *atomic.Bool) { p.AdvanceClock(time.Minute) },
		"close":  func(p *stringPurgatory, _ *atomic.Bool) { _ = p.Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			var met atomic.Bool
			all := submittedWeakly(t, p, &met, 300, "a", "b", "c")
			end(p, &met)
			empty(t, p)
			gone(t, all)
			runtime.KeepAlive(p)
		})
	}
}

//go:noinline
func forcedWeakly(t *testing.T, p *stringPurgatory) (all []weak.Pointer[op]) {
	t.Helper()
	for i := range 10 {
		o := submitted(t, p, "a", "b")
		all = append(all, weak.Make(o))
		if i%2 == 0 {
			p.ForceComplete(o)
		} else {
			p.Cancel(o, errGone)
		}
	}
	return all
}

func TestAForcedOperationCanBeCollectedBeforeItsTimeout(t *testing.T) {
	p := onManualClock[string](t)
	all := forcedWeakly(t, p) // long before its timeout
	gone(t, all)
	empty(t, p)
}

//go:noinline
func cancelledInCheck(t *testing.T, p *stringPurgatory, answer bool) weak.Pointer[op] {
	t.Helper()
	o := &op{}
	o.try = func() bool {
		if o.tries.Load() < 3 {
			return false
		}
		p.Cancel(o, errGone) // the call leaves a wish
		return answer
	}
	submit(t, p, o, hour, "a")
	p.CheckAndComplete("a")
	assert.NotEqual(t, operation.Pending, o.Outcome())
	o.try = nil
	return weak.Make(o)
}

func TestAnOperationCancelledDuringACheckCanBeCollected(t *testing.T) {
	for _, answer := range []bool{false, true} {
		p := onManualClock[string](t)
		gone(t, []weak.Pointer[op]{cancelledInCheck(t, p, answer)})
		empty(t, p)
	}
}

// three returns an operation that has ended, and weak pointers to its neighbours in the
// list.
//
//go:noinline
func three(t *testing.T, p *stringPurgatory) (middle *op, others []weak.Pointer[op]) {
	t.Helper()
	before := submitted(t, p, "a")
	middle = submitted(t, p, "a")
	behind := submitted(t, p, "a")
	for _, o := range []*op{middle, before, behind} {
		require.True(t, p.ForceComplete(o))
	}
	return middle, []weak.Pointer[op]{weak.Make(before), weak.Make(behind)}
}

func TestAnEndedOperationRefersToNoOtherOperation(t *testing.T) {
	middle, others := three(t, onManualClock[string](t))
	gone(t, others)
	ended(t, middle, operation.Forced)
}

func TestInspectKeepsNoEndedOperation(t *testing.T) {
	for _, describe := range []bool{false, true} {
		p := onManualClock[string](t)
		pointer := func() weak.Pointer[described] {
			o := &described{say: func() string { return "" }}
			submit(t, p, o, hour, "a")
			if describe {
				o.say = func() string { p.ForceComplete(o); return "" }
				p.Inspect(0, 1)
			} else {
				p.ForceComplete(o)
			}
			require.EqualValues(t, 1, o.completed.Load())
			return weak.Make(o)
		}()
		for range 20 {
			p.CheckAndComplete("a") // nobody waits
			runtime.GC()
		}
		assert.Nil(t, pointer.Value(), "described: %v", describe)
		empty(t, p)
	}
}

// A callback of a check blocks. Operations that the check has tried in vain end meanwhile, and nothing keeps them.
func TestABlockedCallbackKeepsNoOperationOfItsCheck(t *testing.T) {
	for name, check := range map[string]func(p *stringPurgatory){
		"check":        func(p *stringPurgatory) { p.CheckAndComplete("a") },
		"several keys": func(p *stringPurgatory) { p.CheckAndComplete("a", "b") },
		"signal":       func(p *stringPurgatory) { p.Signal("a") },
		"in order":     func(p *stringPurgatory) { p.CheckAndCompleteInOrder("a") }, // has read one beyond the first that says no
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			var met atomic.Bool
			in, out := make(chan struct{}), make(chan struct{})
			blocks := &op{try: met.Load, complete: func() { close(in); <-out }}
			submit(t, p, until(&met), hour, "a")
			submit(t, p, blocks, hour, "a")
			all := submittedWeakly(t, p, new(atomic.Bool), 50, "a")
			met.Store(true)
			var wg sync.WaitGroup
			wg.Go(func() { check(p) })
			<-in
			forceAll(t, p, all)
			if name == "in order" {
				eventually(t, p.WorkersIdle, "no worker tries those behind one that has left")
			}
			gone(t, all)
			close(out)
			wg.Wait()
		})
	}
}

//go:noinline
func forceAll(t *testing.T, p *stringPurgatory, all []weak.Pointer[op]) {
	t.Helper()
	for _, w := range all {
		o := w.Value()
		if !p.ForceComplete(o) { // a worker may try it, because the one before it in line has left
			eventually(t, func() bool { return o.Outcome() == operation.Forced }, "it ends")
		}
	}
}

// Tests that what callers have handed in is not kept when it has served its purpose.

// When an Await has returned, its function, with all that it refers to, is not kept, although the
// memory of the wait is.
func TestAnAwaitKeepsNothingOfItsFunction(t *testing.T) {
	for name, cause := range map[string]error{"cancelled": errGone, "its context": context.Canceled, "satisfied": nil} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			gone(t, []weak.Pointer[op]{awaited(t, p, cause)})
			empty(t, p)
		})
	}
}

//go:noinline
func awaited(t *testing.T, p *stringPurgatory, cause error) weak.Pointer[op] {
	t.Helper()
	o := &op{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := inBackground(func() {
		for p.Waiting("a") == 0 {
			runtime.Gosched()
		}
		switch {
		case errors.Is(cause, context.Canceled):
			cancel()
		case cause != nil:
			p.CancelForKey("a", cause)
		default:
			p.CheckAndComplete("a")
		}
	})
	assert.ErrorIs(t, p.Await(ctx, hour, func() bool { return o.tries.Add(1) > 2 && cause == nil }, "a"), cause)
	ended() // a walk refers to what it has ended, until it is over
	return weak.Make(o)
}

// A purgatory that is no longer used is gone, although what it has used is kept for others.
func TestAPurgatoryLeavesNothingOfItselfInThePools(t *testing.T) {
	var all []weak.Pointer[stringPurgatory]
	for range 10 {
		all = append(all, usedPurgatory(t))
	}
	runtime.GC() // one collection: a second one would also free what a sync.Pool refers to
	for _, p := range all {
		require.Nil(t, p.Value())
	}
}

//go:noinline
func usedPurgatory(t *testing.T) weak.Pointer[stringPurgatory] {
	p, err := purgatory.New[string]("test", purgatory.WithSlowCallback(hour), purgatory.WithoutReaper())
	require.NoError(t, err)
	use(t, p)
	require.NoError(t, p.Shutdown(t.Context()))
	return weak.Make(p)
}

// use ends an operation of a key, one of many keys, and a wait.
func use(t *testing.T, p *stringPurgatory) {
	keys := []string{"a", "b", "c", "d", "e", "f"}
	for n := range 2 {
		var met atomic.Bool
		submit(t, p, until(&met), purgatory.NoTimeout, keys[:1+5*n]...)
		met.Store(true)
		require.Equal(t, 1, p.CheckAndComplete("a"))
	}
	var over atomic.Bool
	ended := inBackground(func() {
		for !over.Load() {
			p.CheckAndComplete("a")
			runtime.Gosched()
		}
	})
	tries := 0
	require.NoError(t, p.Await(t.Context(), purgatory.NoTimeout, func() bool { tries++; return tries > 2 }, "a"))
	over.Store(true)
	ended()
}

// What is kept of a callback that was timed refers to no operation.
func TestATimedCallbackKeepsNoOperation(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithSlowCallback(hour))
	all := forcedWeakly(t, p)
	gone(t, all)
	empty(t, p)
}

// Tests that operations that have ended do not stay reachable while others go on.

// A verb ends 300 operations, and the first callback blocks. Operations of later batches, which
// others end meanwhile, can be collected.
func TestABlockedCallbackKeepsNoOperationOfALaterBatch(t *testing.T) {
	for name, verb := range map[string]func(p *stringPurgatory){
		"CancelForKey": func(p *stringPurgatory) { p.CancelForKey("a", nil) },
		"Close":        func(p *stringPurgatory) { _ = p.Close() },
	} {
		for _, ordered := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				p := onManualClock[string](t)
				in, out := make(chan struct{}), make(chan struct{})
				blocks := &op{complete: func() { close(in); <-out }}
				submit(t, p, blocks, hour, "a")
				first := submittedAt(t, p, ordered, 200)
				rest := submittedAt(t, p, ordered, 100)
				var wg sync.WaitGroup
				wg.Go(func() { verb(p) })
				<-in
				forceAll(t, p, rest)
				gone(t, rest)
				close(out)
				wg.Wait()
				runtime.KeepAlive(first)
			})
		}
	}
}

//go:noinline
func submittedAt(t *testing.T, p *stringPurgatory, ordered bool, n int) (all []weak.Pointer[op]) {
	t.Helper()
	for range n {
		o := &op{}
		if !ordered {
			submit(t, p, o, hour, "a")
		} else {
			_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "a", Position: 5})
			require.NoError(t, err)
		}
		all = append(all, weak.Make(o))
	}
	return all
}

// connection is a key that refers to the operation that waits under it.
type connection struct{ waits *op }

// The key of an operation that has been answered is not kept while a later callback blocks.
func TestABlockedCallbackKeepsNoKeyOfAnAnsweredOperation(t *testing.T) {
	p := onManualClock[any](t)
	in, out := make(chan struct{}), make(chan struct{})
	all := func() (all []weak.Pointer[op]) {
		for range 50 {
			c := &connection{waits: &op{}}
			submit[any](t, p, c.waits, hour, c, "all")
			all = append(all, weak.Make(c.waits))
		}
		return all
	}()
	submit[any](t, p, &op{complete: func() { close(in); <-out }}, hour, "all")
	var wg sync.WaitGroup
	wg.Go(func() { p.CancelForKey("all", nil) })
	<-in
	gone(t, all)
	close(out)
	wg.Wait()
}

// heavy is an operation of 1 MB.
type heavy struct {
	op
	_ [1 << 20]byte
}

// 16 goroutines make operations of 1 MB on 3 keys and end them. When they have stopped, no
// pooled walk refers to any of those that were answered.
func TestNoHeavyOperationIsReachableAtTheEnd(t *testing.T) {
	const goroutines = 16
	p := onManualClock[int](t)
	var mu sync.Mutex
	var answered []weak.Pointer[heavy]
	round := func(rnd *rand.Rand) {
		var met atomic.Bool
		done := make(chan struct{})
		keys := rnd.Perm(8)[:3]
		weakly := func() weak.Pointer[heavy] {
			o := &heavy{op: op{try: met.Load, complete: func() { close(done) }}}
			_, err := p.TryCompleteElseWatch(o, hour, keys...)
			assert.NoError(t, err)
			return weak.Make(o)
		}()
		switch rnd.IntN(2) {
		case 0:
			p.CancelForKey(keys[1], nil)
		default:
			met.Store(true)
			p.CheckAndComplete(keys[rnd.IntN(3)])
		}
		<-done
		mu.Lock()
		defer mu.Unlock()
		answered = append(answered, weakly)
	}
	var stop atomic.Bool
	var rounds atomic.Int64
	var wg sync.WaitGroup
	for g := range uint64(goroutines) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, g))
			for !stop.Load() {
				round(rnd)
				rounds.Add(1)
			}
		})
	}
	for range 6 {
		for before := rounds.Load(); rounds.Load() < before+20; {
			runtime.Gosched()
		}
		mu.Lock()
		answered = nil
		mu.Unlock()
		runtime.GC()
	}
	stop.Store(true)
	wg.Wait()
	runtime.GC()
	for _, w := range answered {
		assert.Nil(t, w.Value(), "nobody is in a walk any more")
	}
	empty(t, p)
}

// large is an operation that refers to much memory.
type large struct {
	operation.DelayedOperation
	_   [64 << 10]byte
	yes bool
}

func (o *large) TryComplete() bool { return o.yes }
func (o *large) OnComplete()       {}
func (o *large) OnExpiration()     {}

func TestKAFKA664AQuietKeyKeepsNoEndedOperation(t *testing.T) {
	// The timer does not refer to it either, however late its timeout (KAFKA-19389, KoP #1739).
	clockless := onManualClock[int](t)
	ends := map[string]func(o *large){
		"checked":   func(o *large) { o.yes = true; clockless.CheckAndComplete(1) },
		"forced":    func(o *large) { clockless.ForceComplete(o) },
		"cancelled": func(o *large) { clockless.Cancel(o, errGone) },
		"for key":   func(*large) { clockless.CancelForKey(1, errGone) },
	}
	for name, end := range ends {
		for _, ordered := range []bool{false, true} {
			submitted(t, clockless, 2, 3) // these wait for the quiet keys during the whole test
			ended := func() weak.Pointer[large] {
				o := &large{}
				var err error
				if ordered {
					at := make([]purgatory.KeyPosition[int], 200)
					for i := range at {
						at[i] = purgatory.KeyPosition[int]{Key: 1 + i, Position: int64(i)}
					}
					_, err = clockless.TryCompleteElseWatchAt(o, math.MaxInt64, at...)
				} else {
					_, err = clockless.TryCompleteElseWatch(o, math.MaxInt64, 1, 2, 3, 4, 5, 6, 7)
				}
				require.NoError(t, err)
				end(o)
				require.NotEqual(t, operation.Pending, o.Outcome())
				return weak.Make(o)
			}()
			for range 5 {
				if ended.Value() == nil {
					break
				}
				runtime.GC()
			}
			assert.Nil(t, ended.Value(), "%s, ordered %v: without a purge, and without an event on its keys", name, ordered)
		}
	}
	assert.Equal(t, 8, clockless.NumDelayed())
}

func TestKAFKA1441APurgeVisitsNoPendingOperations(t *testing.T) {
	// In Kafka a purge walked over 340,809 watchers, and nothing expired meanwhile. Here a
	// sweep visits stale watches only, of which there are none, and tries no operation.
	p := onManualClock[int](t)
	for i := range 20_000 {
		submitted(t, p, i%500)
	}
	for range 1000 {
		p.AdvanceClock(0)
	}
	s := p.Stats()
	assert.Zero(t, s.Checks)
	assert.Zero(t, s.Purged)
	assert.EqualValues(t, 20_000, s.Watched)
}

func TestEntriesLeftToThePurgeAreBounded(t *testing.T) {
	// Kafka's purge interval is no bound: millions of stale watchers gathered between two
	// purges, and fewer than the interval stayed for ever.
	const limit = 10
	p := open[int](t, purgatory.WithPurgeInterval(limit), purgatory.WithoutReaper(), purgatory.WithWatcherShards(4))
	var wg sync.WaitGroup
	var most atomic.Int64
	for g := range 4 {
		wg.Go(func() {
			for i := range 1500 {
				o := &op{}
				_, err := p.TryCompleteElseWatch(o, hour, g, 10+i%20, 40+i%20, 70+i%20)
				assert.NoError(t, err)
				p.ForceComplete(o)
				if stale := p.Stats().Stale; stale > most.Load() {
					most.Store(stale)
				}
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, most.Load(), int64(limit+4), "who finds that there is no room has been counted for a moment")
	assert.Zero(t, p.NumDelayed())
	assert.EqualValues(t, p.Stats().Stale, p.Watched())
	empty(t, p) // one sweep takes out all
}

// The pool outlives the purgatory: what it holds must not keep keys in memory.
func TestThePoolOfKeysHoldsNone(t *testing.T) {
	keys := []string{"a", "b", "c", "d", "e", "f"}
	for name, use := range map[string]func(p *stringPurgatory){
		"operation": func(p *stringPurgatory) { submitted(t, p, keys...) },
		"wait": func(p *stringPurgatory) {
			require.NoError(t, p.Await(t.Context(), hour, func() bool { return true }, keys...))
		},
	} {
		p := onManualClock[string](t)
		use(p)
		pooled := p.PooledKeys()
		if purgatory.RaceDetector && pooled == nil {
			t.Skip("the race detector makes a sync.Pool drop items")
		}
		require.NotNil(t, pooled, name)
		require.NotZero(t, cap(*pooled), name)
		for _, w := range (*pooled)[:cap(*pooled)] {
			assert.Zero(t, w, name)
		}
	}
}

// A callback that blocks during a call of several keys must not keep the operations in memory
// that the call has ended before.
func TestACallOfSeveralKeysPinsNoEndedOperation(t *testing.T) {
	for name, call := range map[string]func(p *stringPurgatory, keys ...string){
		"one by one": func(p *stringPurgatory, keys ...string) {
			for _, k := range keys {
				p.Signal(k)
			}
		},
		"signal": (*stringPurgatory).Signal,
		"check":  func(p *stringPurgatory, keys ...string) { go p.CheckAndComplete(keys...) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate()
			p := onManualClock[string](t, purgatory.WithSignalWorkers(1), purgatory.WithWatcherShards(1))
			var met atomic.Bool
			var freed weak.Pointer[op]
			var answered atomic.Bool
			func() {
				o := until(&met)
				o.complete = func() { answered.Store(true) }
				submit(t, p, o, hour, "a", "b")
				freed = weak.Make(o)
			}()
			submit(t, p, &op{try: met.Load, complete: g.pass}, hour, "c", "d")
			submitted(t, p, "z")
			met.Store(true)
			call(p, "a", "b", "c", "z")
			<-g.entered
			assert.True(t, answered.Load())
			gone(t, []weak.Pointer[op]{freed}) // its callbacks have returned
			close(g.leave)
		})
	}
}

func TestKAFKA2160EmptyKeysAreRemoved(t *testing.T) {
	p := onManualClock[int](t)
	for i := range 20_000 {
		o := &op{}
		submit(t, p, o, time.Second, i, -i-1)
		switch i % 3 {
		case 0:
			p.ForceComplete(o)
		case 1:
			p.CancelForKey(i, nil)
		default:
			p.AdvanceClock(time.Second)
		}
	}
	p.AdvanceClock(time.Second)
	assert.Zero(t, p.NumKeys())
}
