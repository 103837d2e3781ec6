package purgatory_test

import (
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

func TestARetryIsSignalledUnderANaNKey(t *testing.T) {
	// During each try another goroutine checks the key, so that the holder has to try
	// again, lets go after some tries, and signals the operation's first key for a worker: a NaN,
	// which only this signal finds.
	nan := 0.0
	nan /= nan
	p := open[float64](t, purgatory.WithoutReaper())
	o := &op{}
	o.try = func() bool {
		n := o.tries.Load()
		if n > 2 && n < 100 {
			inBackground(func() { p.CheckAndComplete(2) })()
		}
		return n >= 100
	}
	submit(t, p, o, hour, nan, 2)
	p.CheckAndComplete(2)
	eventually(t, func() bool { return o.completed.Load() == 1 }, "a worker tries again")
	ended(t, o, operation.Satisfied)
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
		"all":          func(p *stringPurgatory) { p.CheckAndCompleteAll() },
		"signal":       func(p *stringPurgatory) { p.Signal("a") },
		"matching": func(p *stringPurgatory) {
			p.CancelMatching("a", nil, func(o operation.Operation) bool { return o.(*op).complete != nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			var met atomic.Bool
			in, out := make(chan struct{}), make(chan struct{})
			blocks := &op{try: met.Load, complete: func() { close(in); <-out }}
			_, err := p.TryCompleteElseWatch(blocks, time.Hour, "a")
			require.NoError(t, err)
			all := submittedWeakly(t, p, new(atomic.Bool), 50, "a")
			met.Store(true)
			var wg sync.WaitGroup
			wg.Go(func() { check(p) })
			<-in
			forceAll(t, p, all)
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
		assert.True(t, p.ForceComplete(w.Value()))
	}
}
