// Package reaper runs one goroutine that advances a clock until it is stopped.
package reaper

import (
	"context"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
)

// Clock is what a reaper advances: a timer.Timer, for instance.
type Clock interface {
	// AdvanceClockUntil waits until something expires, but no longer than d, and
	// expires it. It returns when stop is closed. The result is ignored.
	AdvanceClockUntil(stop <-chan struct{}, d time.Duration) bool
}

// ExpirationReaper is a running reaper. It is safe for concurrent use.
type ExpirationReaper struct {
	stopped sched.Bool
	stop    chan struct{} // closed by the call of Stop that sets stopped
	ended   chan struct{} // closed when the last goroutine of the reaper ends
}

// Start starts a goroutine that calls clock.AdvanceClockUntil with interval and then sweep,
// in a loop, until [ExpirationReaper.Stop]. Without the reaper no timeout would expire, so it
// outlives what it calls: a panic goes to h, with its stack, and the loop goes on; after
// runtime.Goexit another goroutine continues the loop. If h is nil, panics are logged.
func Start(clock Clock, interval time.Duration, sweep func(), h func(recovered any, stack []byte)) *ExpirationReaper {
	r := &ExpirationReaper{stop: make(chan struct{}), ended: make(chan struct{})}
	sched.Go(func() {
		// guard.Call recovers every panic, but a panic handler of the user may call
		// runtime.Goexit.
		guard.Finish(func(r *ExpirationReaper) (over bool) {
			for !r.stopped.Load() {
				guard.Call(func() { clock.AdvanceClockUntil(r.stop, interval) }, h)
				guard.Call(sweep, h)
			}
			close(r.ended)
			return true
		}, r)
	})
	return r
}

// Stop makes the goroutine end: the clock stops waiting, and the goroutine ends after at most
// one more sweep. Stop does not block and may be called from anywhere, more than once. See
// [ExpirationReaper.Wait].
func (r *ExpirationReaper) Stop() {
	if !r.stopped.Swap(true) {
		close(r.stop)
	}
}

// Ended reports whether the goroutine has ended after [ExpirationReaper.Stop].
func (r *ExpirationReaper) Ended() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// Wait blocks until the goroutine has ended after [ExpirationReaper.Stop], and returns nil. If
// ctx ends before, it returns ctx's cause. Do not call it from the clock or from sweep.
func (r *ExpirationReaper) Wait(ctx context.Context) error {
	if !sched.Either(r.ended, ctx.Done()) && !r.Ended() { // both may have ended
		return context.Cause(ctx)
	}
	return nil
}
