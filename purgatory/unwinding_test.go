package purgatory_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// User code that unwinds the stack, by a panic or runtime.Goexit, at places other than a
// callback: the logger, the first try of a registration.

func TestAGoexitInTheFirstTryLosesNoWakeUp(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("of the try's") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var told panics
			p := open[string](t, told.option())
			var met atomic.Bool
			g := newGate()
			o := &op{}
			o.try = func() bool {
				seen := met.Load()
				if o.tries.Load() == 1 {
					g.pass()
					end()
				}
				return seen
			}
			wait := inBackground(func() { _, _ = p.TryCompleteElseWatch(o, hour, "a") })
			<-g.entered
			met.Store(true)
			p.CheckAndComplete("a")
			close(g.leave)
			wait()
			eventually(t, func() bool { return o.completed.Load() == 1 }, "it is tried with the change visible")
		})
	}
}

// A callback that ends the goroutine of AdvanceClock leaves the manual clock usable.
func TestAGoexitInAdvanceClockStopsNoClock(t *testing.T) {
	p := onManualClock[string](t)
	first := &op{expire: runtime.Goexit}
	second := &op{complete: runtime.Goexit}
	third := &op{}
	submit(t, p, first, time.Second, "a")
	submit(t, p, second, time.Second, "a")
	submit(t, p, third, 2*time.Second, "a")
	inBackground(func() { p.AdvanceClock(time.Second) })()
	for range 5 {
		inBackground(func() { p.AdvanceClock(time.Second) })()
	}
	endsSoon(t, first, operation.Expired)
	endsSoon(t, second, operation.Expired)
	endsSoon(t, third, operation.Expired)
}

func TestAnActionThatEndsItsGoroutineLosesNoOther(t *testing.T) {
	var q purgatory.ActionQueue
	var n atomic.Int32
	for i := range 1000 {
		q.Add(func() {
			n.Add(1)
			q.Run()
			if i%3 == 0 {
				runtime.Goexit()
			}
			if i%100 == 0 {
				q.Add(func() { n.Add(1) })
			}
		})
	}
	inBackground(q.Run)()
	eventually(t, func() bool { return n.Load() == 1006 }, "all actions run")
}

// A read that ends its goroutine ends the wait, beside a check and Close.
func TestAReadThatEndsItsGoroutineEndsTheWait(t *testing.T) {
	p := onManualClock[string](t)
	for _, in := range []int{1, 2} {
		reads := 0
		wait := inBackground(func() {
			_, _ = purgatory.AwaitRead(context.Background(), p, hour, func(context.Context) (int, bool, error) {
				reads++
				if reads <= 3 {
					p.CheckAndComplete("a") // its own key
				}
				if reads == in {
					runtime.Goexit()
				}
				return 0, false, nil
			}, "a")
		})
		wait()
		assert.Zero(t, p.NumDelayed())
	}
	empty(t, p)
}
