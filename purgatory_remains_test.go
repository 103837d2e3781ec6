package purgatory_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// What has ended is referred to no more, by nothing in the purgatory.

// submittedWeakly registers n operations, beyond one batch, and keeps none of them.
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

// gone asserts that one collection finds that nobody refers to them. Not two: what a
// pool keeps would be gone by then although it was never cleared.
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

func TestNothingRefersToAnOperationThatHasEnded(t *testing.T) {
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

func TestNothingRefersToAnOperationThatWasForced(t *testing.T) {
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
		p.Cancel(o, errGone) // left as a wish
		return answer
	}
	submit(t, p, o, hour, "a")
	p.CheckAndComplete("a")
	assert.NotEqual(t, operation.Pending, o.Outcome())
	o.try = nil
	return weak.Make(o)
}

func TestNothingRefersToAnOperationThatWasToBeCancelled(t *testing.T) {
	for _, answer := range []bool{false, true} {
		p := onManualClock[string](t)
		gone(t, []weak.Pointer[op]{cancelledInCheck(t, p, answer)})
		empty(t, p)
	}
}

func TestAnotherLookIsAskedForUnderAKeyThatCanBeFound(t *testing.T) {
	// The operation changes its own state whenever it is tried, so that the goroutine
	// that tries it gives up, and a worker has to look. Its first key is a NaN.
	nan := 0.0
	nan /= nan
	p := open[float64](t, purgatory.WithoutReaper())
	o := &op{}
	o.try = func() bool {
		n := o.tries.Load()
		if n > 2 && n < 100 {
			p.CheckAndComplete(2)
		}
		return n >= 100
	}
	submit(t, p, o, hour, nan, 2)
	p.CheckAndComplete(2)
	eventually(t, func() bool { return o.completed.Load() == 1 }, "a worker looks again")
	ended(t, o, operation.Satisfied)
}
