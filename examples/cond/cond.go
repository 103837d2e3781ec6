// Package cond is a condition variable whose waits end with a context, and whose Signal never blocks. It is there
// to be copied, in place of one that was written by hand with channels.
package cond

import (
	"context"
	"sync"

	"github.com/delayedop/purgatory/purgatory"
)

// Cond is sync.Cond with contexts. It is safe for concurrent use.
type Cond struct {
	L       sync.Locker // held by the callers of Wait
	waiting *purgatory.Purgatory[struct{}]

	mu struct { // no other lock of Cond is taken under it
		sync.Mutex
		waiters int // in Wait, and not woken
		wakes   int // how many of these are to be woken
	}
}

// New returns a Cond with the lock l. It needs no Close: it has no goroutine and no timer.
func New(l sync.Locker) *Cond {
	return &Cond{L: l, waiting: purgatory.Must(purgatory.New[struct{}]("cond", purgatory.WithFirstInFirstOut()))}
}

// Wait unlocks L, waits until it is woken or ctx ends, and locks L. It returns nil if it was woken, even if ctx has
// ended meanwhile, and else the cause of ctx. Call it in a loop that looks at the condition: where one leaves while
// it is being woken, another one that comes at that moment may wake for nothing.
func (c *Cond) Wait(ctx context.Context) error {
	c.count(func() { c.mu.waiters++ })
	// StartWait does not block, so the wait stands in line before L is free: a later Signal finds it.
	w, err := c.waiting.StartWait(purgatory.NoTimeout, c.take, struct{}{})
	if err != nil {
		panic(err) // never: the purgatory has no bound and is not closed
	}
	c.L.Unlock()
	defer c.L.Lock()
	select {
	case <-w.Done():
	case <-ctx.Done():
		w.Stop()
		<-w.Done() // Stop has ended it, or it is being woken
	}
	if w.Err() == nil {
		return nil
	}
	c.count(func() { c.mu.waiters--; c.mu.wakes = min(c.mu.wakes, c.mu.waiters) })
	return context.Cause(ctx)
}

// take is the condition of a wait: it takes a wake-up, if there is one.
func (c *Cond) take() (woken bool) {
	c.count(func() {
		if woken = c.mu.wakes > 0; woken {
			c.mu.wakes, c.mu.waiters = c.mu.wakes-1, c.mu.waiters-1
		}
	})
	return woken
}

// Signal wakes the one that has waited longest. It does not block, and the caller may hold L.
func (c *Cond) Signal() { c.wake(func() { c.mu.wakes = min(c.mu.wakes+1, c.mu.waiters) }) }

// Broadcast wakes all that wait. It does not block, and the caller may hold L.
func (c *Cond) Broadcast() { c.wake(func() { c.mu.wakes = c.mu.waiters }) }

func (c *Cond) wake(change func()) {
	c.count(change)
	c.waiting.CheckAndCompleteInOrder(struct{}{}) // it calls take, which does not lock L
}

func (c *Cond) count(change func()) { c.mu.Lock(); defer c.mu.Unlock(); change() }
