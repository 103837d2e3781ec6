package purgatory

import (
	"context"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
)

// AwaitRead is [AwaitValue] for a condition that must be read from a database, a file or
// another process. It calls read on the caller's goroutine, where read may block; a check
// or a signal of a key only wakes that goroutine. AwaitRead returns the value of the
// first read that returns true, or the error of the first read that returns one.
//
// AwaitRead registers the wait before the first read. A check or a signal that comes
// while a read runs causes another read; several of them cause one. So no change is lost
// that was made before its signal. While a read blocks, signals and cancellations cannot
// interrupt it except through its context: give requests to other processes a time limit,
// because a request whose connection breaks may never be answered.
//
// The wait can also end as one of [DelayedOperationPurgatory.Await] does, with the same
// errors: [ErrExpired] after timeout, the cause of ctx, the cause given to CancelForKey,
// [ErrClosed]. AwaitRead then returns the value of the last read that succeeded, so that
// a fetch whose timeout has passed can answer with what it has. When the wait ends, so
// does the context that read was given, and AwaitRead waits until read returns. If that
// read returns true, AwaitRead returns its value and no error; if it fails, AwaitRead
// returns the error of the wait. If a change is signalled just before the timeout, and the
// caller's goroutine wakes up only after it, AwaitRead reads once more, with ctx itself. With a timeout
// of zero or less AwaitRead reads once, with ctx, and does not block.
//
// To a check an AwaitRead says no, so that one in order stops there: where callers compete for
// items, use AwaitValue. In [Stats] each wake-up counts as a wasted check. A panic in read goes to the caller
// and ends the wait as cancelled. Do not call AwaitRead from a callback.
func AwaitRead[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, read func(context.Context) (V, bool, error), keys ...K) (V, error) {
	return awaitRead(ctx, p, timeout, read, keys, nil)
}

// AwaitReadAt is [AwaitRead] for positions: a check or a signal up to a position causes
// a read only if the wait is for that position or a lower one.
func AwaitReadAt[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, read func(context.Context) (V, bool, error), at ...KeyPosition[K]) (V, error) {
	return awaitRead(ctx, p, timeout, read, nil, at)
}

// reading is the operation behind AwaitRead. Its TryComplete always returns false: a
// check only tells the reading goroutine to read again.
type reading[K comparable] struct {
	operation.DelayedOperation
	p       *DelayedOperationPurgatory[K]
	timeout time.Duration
	changed sched.Token             // a check has called TryComplete
	stop    context.CancelCauseFunc // ends the context of read
	ended   chan struct{}
}

// TryComplete is called by checks, and by the registration.
func (r *reading[K]) TryComplete() bool {
	r.changed.Put()
	return false
}

func (r *reading[K]) OnComplete() {
	r.stop(r.p.howEnded(&r.DelayedOperation, r.timeout))
	close(r.ended)
}

func (r *reading[K]) OnExpiration() {}

func (r *reading[K]) waitsIn() string { return "AwaitRead" }

// finish ends r with o, unless another goroutine was faster, and returns how the wait has
// ended. If another goroutine is trying r at this moment, finish waits until that
// goroutine has ended it.
func (r *reading[K]) finish(o machine.Outcome, cause error) error {
	r.p.endNow(r, o, &cause)
	sched.Receive(r.ended)
	return r.p.howEnded(&r.DelayedOperation, r.timeout)
}

func awaitRead[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, read func(context.Context) (V, bool, error), keys []K, at []KeyPosition[K]) (value V, err error) {
	p.made()
	mustContext(ctx, "AwaitRead")
	if read == nil {
		return value, p.refuse(ErrNilOperation, "the function to wait for is nil")
	}
	r := &reading[K]{p: p, timeout: timeout}
	if timeout <= 0 {
		if n := len(keys) + len(at); p.refuses(n, timeout) {
			return value, p.refusal(r, n)
		}
		value, met, err := read(ctx)
		o := machine.Satisfied
		switch {
		case err != nil:
			o = machine.Cancelled
		case !met:
			o, err = machine.Expired, p.errorf(ErrExpired, "after %v", timeout)
		}
		// If the purgatory has closed meanwhile, the result of the read is not lost.
		_ = p.endedAtOnce(p.watchers.Shard(0), o) // any shard: it is only counted
		return value, err
	}
	if h := p.cfg.hook; h != nil {
		h.Await()
	}
	r.changed, r.ended = sched.NewToken(), make(chan struct{})
	until, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.stop = stop
	r.changed.Put() // the first read, whether or not the registration tries r
	if _, err := p.register(r, timeout, keys, at); err != nil {
		return value, err
	}
	defer func() { _ = r.finish(machine.Cancelled, err) }() // if read fails or panics; otherwise the wait has ended
	for over := false; !over && (sched.Either(r.changed, until.Done()) || len(r.changed) > 0); {
		with := until
		if over = until.Err() != nil; over { // the change came before the end
			with = ctx
		}
		got, met, err := read(with)
		switch {
		case err == nil && met:
			_ = r.finish(machine.Satisfied, nil) // whatever ended the wait, the value of this read is the result
			return got, nil
		case err == nil:
			value = got
		case with.Err() == nil:
			return got, err
		default: // the end of the wait has ended the context of read
			over = true
		}
	}
	return value, r.finish(machine.Cancelled, context.Cause(ctx))
}
