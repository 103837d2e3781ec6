// Package cond is a condition variable whose waits end with a context, and whose Signal never blocks. It is there
// to be copied, in place of one that was written by hand with channels.
package cond

import (
	"context"
	"sync"

	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/timer"
)

// Cond is sync.Cond with contexts. It is safe for concurrent use.
type Cond struct {
	L       sync.Locker // held by the callers of Wait
	waiting *queue.Queue[struct{}]
}

// New returns a Cond with the lock l. It needs no Close.
func New(l sync.Locker) *Cond {
	waiting, err := queue.New[struct{}]()
	if err != nil {
		panic(err) // never: there are no options
	}
	return &Cond{l, waiting}
}

// Wait unlocks L, waits until it is woken or ctx ends, and locks L. It returns nil if it was woken, even if ctx has
// ended meanwhile, and else the cause of ctx. Call it in a loop that looks at the condition.
func (c *Cond) Wait(ctx context.Context) error {
	// Start does not block, so the wait stands in line before L is free: a later Signal finds it.
	w, err := c.waiting.Start(timer.Never, nil)
	if err != nil {
		panic(err) // never: the queue has no bound and is not closed
	}
	c.L.Unlock()
	defer c.L.Lock()
	select {
	case <-w.Done():
	case <-ctx.Done():
		if w.Stop() { // else it has been woken
			return context.Cause(ctx)
		}
	}
	return nil
}

// Signal wakes the one that has waited longest. It does not block, and the caller may hold L.
func (c *Cond) Signal() { _, _ = c.waiting.Hand(struct{}{}) }

// Broadcast wakes all that wait. It does not block, and the caller may hold L. If one of them leaves meanwhile, one that
// comes may be woken in its place.
func (c *Cond) Broadcast() {
	for range c.waiting.Stats().Waiting {
		c.Signal()
	}
}
