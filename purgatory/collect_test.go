package purgatory_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"slices"
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

// Operations that a worker has answered are not kept while it runs the callback of another one that
// has ended with them.
func TestABlockedWorkerKeepsNoAnsweredOperation(t *testing.T) {
	p := onManualClock[string](t)
	held := purgatory.HoldWorkers(t, p)
	all := submittedWeakly(t, p, new(atomic.Bool), 5, "a")
	g := newGate()
	submit(t, p, &op{complete: g.pass}, hour, "a")
	submitted(t, p, "a")
	p.CloseOnWorkers()
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
	ends := map[string]func(p *stringPurgatory, met *atomic.Bool, all []weak.Pointer[op]){
		"check": func(p *stringPurgatory, met *atomic.Bool, _ []weak.Pointer[op]) {
			met.Store(true)
			p.CheckAndComplete("a")
		},
		"cancel": func(p *stringPurgatory, _ *atomic.Bool, _ []weak.Pointer[op]) { p.CancelForKey("b", errGone) },
		"force":  func(p *stringPurgatory, _ *atomic.Bool, all []weak.Pointer[op]) { forceAll(t, p, all) },
		"expire": func(p *stringPurgatory, _ *atomic.Bool, _ []weak.Pointer[op]) { p.AdvanceClock(time.Minute) },
		"close":  func(p *stringPurgatory, _ *atomic.Bool, _ []weak.Pointer[op]) { _ = p.Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			var met atomic.Bool
			all := submittedWeakly(t, p, &met, 300, "a", "b", "c")
			end(p, &met, all)
			empty(t, p)
			gone(t, all)
			runtime.KeepAlive(p)
		})
	}
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

// A callback of a check blocks. Operations that the check has tried in vain end meanwhile, and nothing keeps them.
func TestABlockedCallbackKeepsNoOperationOfItsCheck(t *testing.T) {
	for name, check := range map[string]func(p *stringPurgatory){
		"check":        func(p *stringPurgatory) { p.CheckAndComplete("a") },
		"several keys": func(p *stringPurgatory) { p.CheckAndComplete("a", "b") },
		"signal":       func(p *stringPurgatory) { p.Signal("a") },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			var met atomic.Bool
			in, out := make(chan struct{}), make(chan struct{})
			blocks := &op{try: met.Load, complete: func() { close(in); <-out }}
			answered := submittedWeakly(t, p, &met, 3, "a")
			submit(t, p, blocks, hour, "a")
			all := submittedWeakly(t, p, new(atomic.Bool), 50, "a")
			met.Store(true)
			wait := inBackground(func() { check(p) })
			<-in
			forceAll(t, p, all)
			gone(t, append(all, answered...))
			close(out)
			wait()
		})
	}
}

//go:noinline
func forceAll(t *testing.T, p *stringPurgatory, all []weak.Pointer[op]) {
	t.Helper()
	for _, w := range all {
		require.True(t, p.ForceComplete(w.Value()))
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

// Tests that operations that have ended do not stay reachable while others go on.

// A Close of many keys whose last callback blocks, and a walk that has run a batch of callbacks and whose next try blocks, keep
// none of those that they have answered.
func TestWhatBlocksKeepsNoAnsweredOperation(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithWatcherShards(1))
	g, n, last := newGate(), 0, 0
	var all []weak.Pointer[op]
	for key := range 50 {
		o := &op{complete: func() {
			if n++; n == 50 {
				last = key
				g.pass()
			}
		}}
		submit(t, p, o, hour, key)
		all = append(all, weak.Make(o))
	}
	wait := inBackground(func() { _ = p.Close() })
	<-g.entered
	gone(t, slices.Delete(all, last, last+1))
	close(g.leave)
	wait()

	q := onManualClock[string](t)
	var met atomic.Bool
	g = newGate()
	first := submittedWeakly(t, q, &met, purgatory.BatchSize, "a")
	submit(t, q, &op{try: func() bool {
		if met.Load() {
			g.pass()
		}
		return false
	}}, hour, "a")
	met.Store(true)
	wait = inBackground(func() { q.CheckAndComplete("a") })
	<-g.entered
	gone(t, first)
	close(g.leave)
	wait()
}

func TestALoopOverKeysKeepsNoEndedOperation(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithWatcherShards(1))
	var all []weak.Pointer[op]
	for key := range 50 {
		o := &op{}
		submit(t, p, o, hour, key)
		all = append(all, weak.Make(o))
	}
	for range p.Keys() {
		for key := range 50 {
			p.CancelForKey(key, nil)
		}
		gone(t, all)
		return
	}
}

// The first callback of a check blocks. Operations that the check would have come to later, and that others end meanwhile, can be
// collected.
func TestABlockedCallbackKeepsNoOperationOfALaterBatch(t *testing.T) {
	p := onManualClock[string](t)
	var met atomic.Bool
	g := newGate()
	blocks := until(&met)
	blocks.complete = g.pass
	submit(t, p, blocks, hour, "a")
	first := submittedWeakly(t, p, &met, purgatory.BatchSize, "a")
	rest := submittedWeakly(t, p, &met, 100, "a")
	met.Store(true)
	wait := inBackground(func() { p.CheckAndComplete("a") })
	<-g.entered
	forceAll(t, p, rest)
	gone(t, rest)
	close(g.leave)
	wait()
	runtime.KeepAlive(first)
	empty(t, p)
}

// connection is a key that refers to the operation that waits under it.
type connection struct{ waits *op }

// The key of an operation that has been answered is not kept while a later callback blocks, but for one in
// each shard, which is reported if it blocks.
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
	wait := inBackground(func() { p.CancelForKey("all", nil) })
	<-in
	runtime.GC()
	kept := 0
	for _, o := range all {
		if o.Value() != nil {
			kept++
		}
	}
	assert.LessOrEqual(t, kept, 1)
	close(out)
	wait()
}

// Records that wait for a logger that blocks keep no operation.
func TestARecordKeepsNoOperation(t *testing.T) {
	leave := make(chan struct{})
	p := onManualClock[string](t, purgatory.WithLogger(slog.New(blocking{&records{}, leave})))
	bad := func() (all []weak.Pointer[op]) {
		for range 3 {
			o := &op{complete: func() { panic("of the test") }}
			submit(t, p, o, hour, "a")
			all = append(all, weak.Make(o))
		}
		return all
	}()
	unchecked := submittedWeakly(t, p, new(atomic.Bool), 3, "b")
	p.CancelForKey("a", nil)
	p.AdvanceClock(time.Minute)
	gone(t, append(bad, unchecked...))
	close(leave)
	require.NoError(t, p.Shutdown(t.Context()))
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
	empty(t, p) // one sweep takes out all
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
			p := onManualClock[string](t, purgatory.WithWorkers(1), purgatory.WithWatcherShards(1))
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
	assert.Zero(t, p.Stats().Keys)
}
