package programs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// client is the context of a wait, which ends when a step of the program says so.
type client struct {
	context.Context
	end context.CancelFunc
}

func newClient(strange bool) *client {
	if strange {
		ctx := &foreign{Context: context.Background(), done: make(chan struct{})}
		return &client{ctx, ctx.end}
	}
	ctx, end := context.WithCancel(context.Background())
	return &client{ctx, end}
}

// AfterFunc is that of a foreign context. Package context asks its own without it.
func (c *client) AfterFunc(f func()) (stop func() bool) {
	if ctx, is := c.Context.(*foreign); is {
		return ctx.afterFunc(f)
	}
	return context.AfterFunc(c.Context, f)
}

// foreign is a context that package context does not know. It starts what waits for its end itself, so that the scheduler
// knows those goroutines.
type foreign struct {
	context.Context
	done chan struct{} // closed by end

	mu    sync.Mutex
	err   error
	after []func()
}

func (c *foreign) Done() <-chan struct{} { return c.done }
func (c *foreign) Value(any) any         { return nil }

func (c *foreign) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *foreign) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = context.Canceled
	close(c.done)
	for _, f := range c.after {
		if f != nil {
			sched.Go(f)
		}
	}
}

// afterFunc calls f when c has ended.
func (c *foreign) afterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		sched.Go(f)
		return func() bool { return false }
	}
	c.after = append(c.after, f)
	i := len(c.after) - 1
	return func() (stopped bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		stopped = c.err == nil && c.after[i] != nil
		c.after[i] = nil
		return stopped
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
	o.left = o.left || o.hungUp
	w.mu.Unlock()
	if o.hungUp {
		o.client.end()
	}
	late := o.gives() && o.client.Err() != nil
	now, timeout := w.clock.Now(), o.span()
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				if err, ok := v.(error); !ok || !errors.Is(err, errBoom) {
					panic(v)
				}
			}
			w.mu.Lock()
			o.gone = true
			w.mu.Unlock()
		}
	}()
	err := w.block(o, timeout)
	returned = true
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
	if late && (o.tries > 0 || !errors.Is(err, context.Canceled) && !errors.Is(err, purgatory.ErrClosed)) {
		o.fault("its context had ended when it began, %d tries, and Await returns %v", o.tries, err)
	}
	if (err == nil) != o.yes && (!errors.Is(err, purgatory.ErrClosed) || !w.closing) {
		o.fault("Await returns %v, and the condition has returned %v", err, o.yes)
	}
	switch {
	case err == nil:
		o.outcome = operation.Satisfied
		o.loose = w.closing && o.tries == 1 // a purgatory that has closed does not count a try before the registration
	case errors.Is(err, purgatory.ErrExpired):
		o.outcome = operation.Expired
		o.loose = w.closing && o.tries == 1
		if deadline := timer.Deadline(now, timeout); later < deadline {
			o.fault("expired at %v, not allowed before %v", later, deadline)
		}
	case errors.Is(err, errCause), errors.Is(err, context.Canceled), errors.Is(err, purgatory.ErrCancelled):
		o.outcome = operation.Cancelled
		o.loose = o.tries == 0 // its context had ended, so that it was not registered
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

// block waits in the way that o.how says.
func (w *world) block(o *waiter, timeout time.Duration) error {
	keys, at := o.places()
	switch {
	case at != nil:
		return w.p.AwaitAt(o.client, timeout, o.TryComplete, at...)
	case o.how == vAwait:
		return w.p.Await(o.client, timeout, o.TryComplete, keys...)
	case o.how == vStartWait:
		wait, err := w.p.StartWait(timeout, o.TryComplete, keys...)
		return choose(o.client, wait, err)
	}
	value, err := purgatory.AwaitValue(o.client, w.p, timeout, func() (int, bool) { return 1, o.TryComplete() }, keys...)
	if (value == 1) != (err == nil) {
		w.fault("o%d: AwaitValue returns %d, %v", o.id, value, err)
	}
	return err
}

// choose waits for a Wait beside a context.
func choose(ctx context.Context, wait *purgatory.Wait[int], err error) error {
	if err != nil {
		return err
	}
	if !sched.Either(wait.Done(), ctx.Done()) {
		wait.Stop()
		sched.Receive(wait.Done())
	}
	return wait.Err()
}

// gives reports whether o is a wait that gets nothing after its context has ended: a StartWait has none.
func (o *op) gives() bool { return o.waits && o.how != vStartWait }

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
