package programs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// client is a context that ends when a step of the program or the end of the run says so, or
// when it was asked often enough: so a Shutdown that polls in vain ends.
type client struct {
	context.Context
	mu   sync.Mutex
	left int // how often Err may be called before it ends
	done chan struct{}
	err  error
}

func newClient(asks int) *client {
	return &client{Context: context.Background(), left: asks, done: make(chan struct{})}
}

func (c *client) Done() <-chan struct{} { return c.done }

func (c *client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		c.endLocked()
	}
	return c.err
}

func (c *client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked()
}

func (c *client) endLocked() {
	if c.err == nil {
		c.err = context.Canceled
		close(c.done)
	}
}

// await is register for an operation that is an Await. It returns when the wait has ended.
func (w *world) await(o *waiter) {
	w.mu.Lock()
	if len(o.begun) > 0 {
		w.mu.Unlock()
		return
	}
	w.now++
	began := w.now
	o.begun = append(o.begun, began)
	w.mu.Unlock()
	now, timeout := w.clock.Now(), time.Duration(o.timeout)*tick
	keys := make([]int, len(o.keys))
	for i, k := range o.keys {
		keys[i] = w.ids[k]
	}
	err := w.block(o, timeout, keys)
	later := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	o.returned++
	o.completed++ // from here on the condition must not be called
	o.doneAt = w.now
	if o.trying {
		o.fault("Await returns while its condition runs")
	}
	if (err == nil) != o.yes && (!errors.Is(err, purgatory.ErrClosed) || !w.closing) {
		o.fault("Await returns %v, and the condition has returned %v", err, o.yes)
	}
	switch {
	case err == nil:
		o.outcome = operation.Satisfied
		o.loose = w.closing && o.tries == 1 // a purgatory that has closed does not count the yes, which is the caller's
	case errors.Is(err, purgatory.ErrExpired):
		o.outcome = operation.Expired
		if later < now+timeout {
			o.fault("expired at %v, not allowed before %v", later, now+timeout)
		}
	case errors.Is(err, errCause), errors.Is(err, context.Canceled), errors.Is(err, purgatory.ErrCancelled):
		o.outcome = operation.Cancelled
		if !errors.Is(err, errCause) && !o.left || errors.Is(err, errCause) && !o.cause {
			o.fault("Await returns %v, and nobody has cancelled it", err)
		}
	case errors.Is(err, purgatory.ErrClosed):
		if !w.closing {
			o.fault("Await returns %v, and nobody closes", err)
		}
	case errors.Is(err, purgatory.ErrFull):
		o.full = append(o.full, [2]int{began, w.now})
	default:
		o.fault("Await returns %v", err)
	}
}

// block calls Await, or for every other timeout a Wait that is selected beside the context.
func (w *world) block(o *waiter, timeout time.Duration, keys []int) error {
	if o.timeout%2 == 0 {
		return w.p.Await(o.client, timeout, o.TryComplete, keys...)
	}
	wait, err := w.p.StartWait(timeout, o.TryComplete, keys...)
	if err != nil {
		return err
	}
	if !sched.Either(wait.Done(), o.client.Done()) {
		wait.Stop()
		sched.Receive(wait.Done())
	}
	return wait.Err()
}

// leave ends the context of a wait, as a client does that hangs up.
func (w *world) leave(o *waiter) {
	w.mu.Lock()
	o.left = true
	w.mu.Unlock()
	o.client.end()
}

// judgeWait checks an Await when no goroutine of the program can go on.
func (o *waiter) judgeWait() (pending bool) {
	for _, f := range o.full {
		o.judgeFull(f[0], f[1])
	}
	if o.completed > 0 || len(o.begun) == 0 {
		return false
	}
	switch {
	case o.left:
		o.fault("its context has ended, and it still waits")
	case o.w.closing:
		o.fault("closed, and it still waits")
	case o.yes:
		o.fault("its condition has returned true, and it still waits")
	}
	o.judgeWakeUp()
	return true
}
