package purgatory

import (
	"context"
	"time"

	"github.com/delayedop/purgatory/operation"
)

// Await blocks until ready returns true, and then returns nil; or until timeout has
// passed (ErrExpired), ctx ends (its cause), CancelForKey ends it (the cause given
// there; ErrCancelled if that is nil), or the purgatory closes (ErrClosed): exactly
// one of them, decided once. When it returns it has left nothing behind.
//
// ready is tried at once, and then whenever one of keys is checked or signalled, on
// the goroutine that does it; never twice at a time, and never after Await has
// returned. A true from it is never lost: when it says so while the timeout passes,
// or ctx ends, Await returns nil. If ctx ends while ready runs elsewhere, Await
// waits for its answer. A timeout of zero or less tries once and does not wait. A
// panic in ready goes to the caller if it is the first try, before anything waits;
// later it goes to the panic handler, and counts as a no.
//
// Other errors are those of TryCompleteElseWatch. The sentinels come wrapped, with
// what they are about: compare by errors.Is. Await costs two allocations, no
// timer of the runtime, and no goroutine beside the caller's. It is not for
// callbacks, which must not block.
func (p *DelayedOperationPurgatory[K]) Await(ctx context.Context, timeout time.Duration, ready func() bool, keys ...K) error {
	return p.await(ctx, timeout, ready, keys, nil)
}

// AwaitAt is Await for positions: ready is tried only when a key has come as far.
func (p *DelayedOperationPurgatory[K]) AwaitAt(ctx context.Context, timeout time.Duration, ready func() bool, at ...At[K]) error {
	return p.await(ctx, timeout, ready, nil, at)
}

// AwaitValue is Await for a function that returns what it has found: the value with
// which ready said true is returned.
func AwaitValue[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, ready func() (V, bool), keys ...K) (V, error) {
	return awaitValue(ctx, p, timeout, ready, keys, nil)
}

// AwaitValueAt is AwaitValue for positions.
func AwaitValueAt[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, ready func() (V, bool), at ...At[K]) (V, error) {
	return awaitValue(ctx, p, timeout, ready, nil, at)
}

func awaitValue[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, ready func() (V, bool), keys []K, at []At[K]) (value V, err error) {
	if ready == nil {
		return value, p.errorf(ErrNilOperation, "the function to wait for is nil")
	}
	err = p.await(ctx, timeout, func() bool {
		found, ok := ready()
		if ok {
			value = found
		}
		return ok
	}, keys, at)
	return value, err
}

// wait is the operation behind Await.
type wait struct {
	operation.DelayedOperation
	ready func() bool
	ended chan struct{}
}

func (w *wait) TryComplete() bool { return w.ready() }
func (w *wait) OnComplete()       { close(w.ended) }
func (w *wait) OnExpiration()     {}

func (p *DelayedOperationPurgatory[K]) await(ctx context.Context, timeout time.Duration, ready func() bool, keys []K, at []At[K]) error {
	if ready == nil {
		return p.errorf(ErrNilOperation, "the function to wait for is nil")
	}
	w := &wait{ready: ready}
	if !p.admits(w, len(keys)+len(at)) {
		return p.refuse(w, len(keys)+len(at))
	}
	if ready() { // nobody knows of w yet, and it needs no channel
		return nil
	}
	if timeout <= 0 {
		return p.errorf(ErrExpired, "after %v", timeout)
	}
	w.ended = make(chan struct{})
	completed, err := p.register(w, timeout, keys, at)
	if err != nil {
		return err
	}
	if !completed {
		select {
		case <-w.ended:
		case <-ctx.Done():
			p.Cancel(w, context.Cause(ctx))
			<-w.ended // by this Cancel, or by whoever was faster
		}
	}
	switch w.Outcome() {
	case operation.Satisfied:
		return nil
	case operation.Expired:
		return p.errorf(ErrExpired, "after %v", timeout)
	case operation.Cancelled:
		if cause := w.Cause(); cause != nil {
			return cause
		}
		return p.errorf(ErrCancelled, "without a cause")
	default:
		return p.errorf(ErrClosed, "while waiting")
	}
}
