// Package reaper is one goroutine that advances a clock until it is told to stop.
package reaper

import (
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/delayedop/purgatory/internal/guard"
)

// Clock is what a reaper drives.
type Clock interface {
	// AdvanceClock waits up to d for something to expire, and expires it.
	AdvanceClock(d time.Duration) bool
}

// ExpirationReaper is a running reaper. It is safe for concurrent use.
type ExpirationReaper struct {
	group   errgroup.Group
	stopped atomic.Bool
}

// Start starts a goroutine that advances clock by interval in a loop, and calls
// sweep after each time. A panic in either is told to h, and the loop goes on: a
// reaper that ends by itself ends every timeout.
func Start(clock Clock, interval time.Duration, sweep func(), h func(recovered any, stack []byte)) *ExpirationReaper {
	r := &ExpirationReaper{}
	r.group.Go(func() error {
		for !r.stopped.Load() {
			guard.Call(func() { clock.AdvanceClock(interval) }, h)
			guard.Call(sweep, h)
		}
		return nil
	})
	return r
}

// Stop tells the goroutine to end; it does so when the clock lets it go. Stop does
// not wait, and may be called from anywhere, more than once.
func (r *ExpirationReaper) Stop() { r.stopped.Store(true) }

// Wait returns when the goroutine has ended.
func (r *ExpirationReaper) Wait() { _ = r.group.Wait() }
