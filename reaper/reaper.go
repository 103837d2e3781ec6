// Package reaper runs one goroutine that advances a clock until it is stopped.
package reaper

import (
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// ExpirationReaper is a running reaper. It is safe for concurrent use.
type ExpirationReaper struct {
	stopped sched.Bool
	stop    chan struct{} // closed by the call of Stop that sets stopped
	ended   chan struct{} // closed when the goroutine ends
}

// Start starts a goroutine that calls advance, a timer's AdvanceClockUntil, with interval and then sweep, in a loop, until
// [ExpirationReaper.Stop]. Neither may panic: without the reaper no timeout would expire. advance returns when the channel
// that it gets is closed.
func Start(advance func(stop <-chan struct{}, d time.Duration) bool, interval time.Duration, sweep func()) *ExpirationReaper {
	r := &ExpirationReaper{stop: make(chan struct{}), ended: make(chan struct{})}
	sched.Go(func() {
		defer close(r.ended)
		for !r.stopped.Load() {
			advance(r.stop, interval)
			sweep()
		}
	})
	return r
}

// Stop makes the goroutine end: the clock stops waiting, and the goroutine ends after at most
// one more sweep. Stop does not block and may be called from anywhere, more than once.
func (r *ExpirationReaper) Stop() {
	if !r.stopped.Swap(true) {
		close(r.stop)
	}
}

// Ended reports whether the goroutine has ended after [ExpirationReaper.Stop].
func (r *ExpirationReaper) Ended() bool { return sched.Closed(r.ended) }
