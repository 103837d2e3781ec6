// Package reaper is one goroutine that advances a clock until it is told to stop.
package reaper

import (
	"context"
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
	ended   chan struct{}
}

// Start starts a goroutine that advances clock by interval in a loop, and calls
// sweep after each time. A panic in either is told to h, and the loop goes on: a
// reaper that ends by itself ends every timeout. So does a goroutine that ends by
// runtime.Goexit: the next one takes over.
func Start(clock Clock, interval time.Duration, sweep func(), h func(recovered any, stack []byte)) *ExpirationReaper {
	r := &ExpirationReaper{ended: make(chan struct{})}
	r.group.Go(func() error {
		r.run(func() {
			guard.Call(func() { clock.AdvanceClock(interval) }, h)
			guard.Call(sweep, h)
		})
		return nil
	})
	return r
}

// run calls turn until it is told to stop.
func (r *ExpirationReaper) run(turn func()) {
	defer func() {
		if r.stopped.Load() {
			close(r.ended)
			return
		}
		// Neither stopped nor panicking: runtime.Goexit, in an executor of the
		// user's or in a panic handler. Another goroutine takes over.
		r.group.Go(func() error {
			r.run(turn)
			return nil
		})
	}()
	for !r.stopped.Load() {
		turn()
	}
}

// Stop tells the goroutine to end; it does so when the clock lets it go. Stop does
// not wait, and may be called from anywhere, more than once.
func (r *ExpirationReaper) Stop() { r.stopped.Store(true) }

// Wait returns when the goroutine has ended, or with ctx's cause if ctx ends before.
func (r *ExpirationReaper) Wait(ctx context.Context) error {
	select {
	case <-r.ended:
		return r.group.Wait()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
