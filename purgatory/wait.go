package purgatory

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
)

// Wait is a wait that a goroutine can select on, beside its other channels: see
// [DelayedOperationPurgatory.StartWait]. It is safe for concurrent use.
type Wait[K comparable] struct {
	op      waiting
	p       *DelayedOperationPurgatory[K]
	timeout time.Duration
}

// waiting is the operation behind a Wait.
type waiting struct {
	operation.DelayedOperation
	ready func() bool
	done  chan struct{}
}

func (w *waiting) TryComplete() bool { return w.ready() }
func (w *waiting) OnComplete()       { close(w.done) }
func (w *waiting) OnExpiration()     {}
func (w *waiting) waitsIn() string   { return "Wait" }

// StartWait is [DelayedOperationPurgatory.Await] that does not block: it returns a Wait, whose
// channel is closed when the wait has ended.
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
// A Wait has no goroutine. It and its channel are two allocations. Call Stop when you no longer
// need it. Errors: those of [DelayedOperationPurgatory.TryCompleteElseWatch].
func (p *DelayedOperationPurgatory[K]) StartWait(timeout time.Duration, ready func() bool, keys ...K) (*Wait[K], error) {
	return p.startWait(timeout, ready, keys, nil)
}

// StartWaitAt is [DelayedOperationPurgatory.StartWait] for positions, as
// [DelayedOperationPurgatory.AwaitAt] is Await for positions.
func (p *DelayedOperationPurgatory[K]) StartWaitAt(timeout time.Duration, ready func() bool, at ...KeyPosition[K]) (*Wait[K], error) {
	return p.startWait(timeout, ready, nil, at)
}

func (p *DelayedOperationPurgatory[K]) startWait(timeout time.Duration, ready func() bool, keys []K, at []KeyPosition[K]) (*Wait[K], error) {
	if ready == nil {
		return nil, p.refuse(ErrNilOperation, "the function to wait for is nil")
	}
	w := &Wait[K]{p: p, timeout: timeout}
	w.op.ready, w.op.done = ready, make(chan struct{})
	if _, err := p.register(&w.op, timeout, keys, at); err != nil {
		return nil, err
	}
	return w, nil
}

// Done returns a channel that is closed when the wait has ended.
func (w *Wait[K]) Done() <-chan struct{} { return w.op.done }

// Err returns how the wait has ended, with the errors of [DelayedOperationPurgatory.Await]: nil
// if ready has returned true. Call it after Done's channel is closed; before, it returns
// [ErrPending].
func (w *Wait[K]) Err() error {
	if w.op.Outcome() == operation.Pending {
		return w.p.errorf(ErrPending, "the wait has not ended")
	}
	return w.p.howEnded(&w.op.DelayedOperation, w.timeout)
}

// Stop ends the wait as cancelled, so that nothing is left of it, and reports whether this call
// has ended it. It returns false if the wait has ended, or if another goroutine is calling ready
// at this moment: that goroutine ends it then.
func (w *Wait[K]) Stop() bool { return w.p.endNow(&w.op, machine.Cancelled, &errNone) }

// errNone is the cause of a wait that was stopped: a variable, so that Stop allocates none.
var errNone error
