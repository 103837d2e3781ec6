package purgatory

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
)

// Wait is a wait that a goroutine can select on, beside its other channels: see [Purgatory.StartWait].
// It is safe for concurrent use.
type Wait[K comparable] struct {
	op      await
	p       *Purgatory[K]
	timeout time.Duration
}

// StartWait is [Purgatory.Await] that does not block: it returns a Wait, whose channel is closed when the wait has
// ended. If ready is met at once, that is so when StartWait returns.
//
//	w, err := p.StartWait(30*time.Second, replicated, "orders-0")
//	if err != nil {
//		return err
//	}
//	defer w.Stop()
//	select {
//	case <-w.Done():
//		return w.Err() // nil: it is replicated
//	case <-quit:
//		return errQuit
//	}
//
// Call Stop when you no longer need the Wait. If it returns false, another goroutine may have ended the wait with what
// ready took: receive from Done, and look at Err.
//
// A Wait has no goroutine; it and its channel are two allocations. Errors: those of [Purgatory.TryCompleteElseWatch],
// but none once ready has returned true.
func (p *Purgatory[K]) StartWait(timeout time.Duration, ready func() bool, keys ...K) (*Wait[K], error) {
	if ready == nil {
		return nil, p.refusal(ErrNilOperation, "the function to wait for is nil")
	}
	w := &Wait[K]{p: p, timeout: timeout}
	w.op.ready, w.op.ended = ready, make(chan struct{})
	returned := false
	defer func() {
		if !returned { // ready has called runtime.Goexit
			w.Stop()
		}
	}()
	_, err := p.submit(&w.op, timeout, keys, nil)
	if returned = true; err != nil {
		if w.op.ready != nil {
			return nil, err
		}
		close(w.op.ended) // the purgatory has closed meanwhile: the yes is the caller's all the same
	}
	return w, nil
}

// Done returns a channel that is closed when the wait has ended.
func (w *Wait[K]) Done() <-chan struct{} { return w.op.ended }

// Err returns how the wait has ended, with the errors of [Purgatory.Await], and before that [ErrPending].
func (w *Wait[K]) Err() error {
	over := sched.Closed(w.op.ended) // asked first: it closes when the outcome is final
	switch {
	case w.op.Outcome() != operation.Pending:
		return w.p.howEnded(&w.op.DelayedOperation, w.timeout)
	case over: // ready had returned true before the wait could begin
		return nil
	}
	return w.p.errorf(ErrPending, "the wait has not ended")
}

// Stop ends the wait as cancelled, and reports whether this call has: not if the wait has ended, or if another
// goroutine is calling ready at this moment, which ends it then.
func (w *Wait[K]) Stop() bool { return w.p.endNow(&w.op, machine.Cancelled, &errNone) }

// errNone is the cause of a wait that was stopped: a variable, so that Stop allocates none.
var errNone error
