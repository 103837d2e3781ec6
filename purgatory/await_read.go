package purgatory

import (
	"context"
	"sync/atomic"
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
// interrupt it except through its context, which ends when read returns, or when the wait ends: give requests to
// other processes a time limit, because a request whose connection breaks may never be answered. AwaitRead starts
// no goroutine, but package context starts one for each read, while it runs, if ctx is not of that package.
//
// The wait can also end as one of [DelayedOperationPurgatory.Await] does, with the same
// errors: [ErrExpired] after timeout, the cause of ctx, the cause given to CancelForKey,
// [ErrClosed]. AwaitRead then returns the value of the last read that succeeded, so that
// a fetch whose timeout has passed can answer with what it has. If the wait ends
// during a read, AwaitRead waits until that returns. If that
// read returns true, AwaitRead returns its value and no error; if it fails, AwaitRead
// returns the error of the wait. If a change is signalled just before the timeout, and the
// caller's goroutine wakes up only after it, AwaitRead reads once more, with ctx itself. With a timeout
// of zero or less AwaitRead reads once, with ctx, and does not block. If ctx has ended, AwaitRead does not read,
// and returns its cause.
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

func awaitRead[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, read func(context.Context) (V, bool, error), keys []K, at []KeyPosition[K]) (value V, err error) {
	p.made()
	mustContext(ctx, "AwaitRead")
	if read == nil {
		return value, p.refuse(ErrNilOperation, "the function to wait for is nil")
	}
	switch n := len(keys) + len(at); {
	case p.refuses(n, timeout):
		return value, p.refusal(&waiter{over: func() {}}, n)
	case sched.Closed(ctx.Done()):
		p.passedOver.Add(1)
		return value, context.Cause(ctx)
	case timeout <= 0:
		return readOnce(ctx, p, timeout, read)
	default:
		return blockRead(ctx, p, timeout, read, keys, at)
	}
}

// blockRead is awaitRead that may have to wait.
func blockRead[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, read func(context.Context) (V, bool, error), keys []K, at []KeyPosition[K]) (value V, err error) {
	if h := p.cfg.hook; h != nil {
		h.Await()
	}
	done := ctx.Done()
	changed := sched.NewToken() // a check has asked for another read, or the wait has ended
	changed.Put()
	var asked sched.Bool
	asked.Store(true) // for the first read, whether or not the registration tries the wait
	var stop atomic.Pointer[context.CancelCauseFunc]
	w := &waiter{ended: make(chan struct{}), done: done}
	w.ready = func() bool {
		asked.Store(true)
		changed.Put()
		return false
	}
	w.over = func() {
		defer changed.Put()
		if end := stop.Load(); end != nil {
			(*end)(p.howEnded(&w.DelayedOperation, timeout)) // of a read that blocks
		}
	}
	// finish ends the wait, unless it has ended, and returns how it has. If another goroutine is trying it at
	// this moment, finish waits until that one has ended it.
	finish := func(o machine.Outcome, cause error) error {
		p.endNow(w, o, &cause)
		sched.Receive(w.ended)
		return p.howEnded(&w.DelayedOperation, timeout)
	}
	accepted := true
	defer func() {
		// Also if read fails or panics, or a method of another operation has ended this goroutine.
		if accepted && machine.Of(w).Owner() != 0 {
			_ = finish(machine.Cancelled, err)
		}
		if w.gone {
			p.passedOver.Add(1)
		}
	}()
	if _, err := p.register(w, timeout, keys, at); err != nil {
		accepted = false
		return value, err
	}
	for over := false; !over && sched.Either(changed, done) && !sched.Closed(done); {
		// Each read has a context of its own, which does not outlive it: to link it to one that is not of package
		// context takes a goroutine, and mostly no read runs.
		with, end := context.WithCancelCause(ctx)
		stop.Store(&end)
		over = w.Outcome() != operation.Pending // if not, its end ends with
		more := asked.Swap(false)
		if over || !more {
			end(nil)
			with = ctx // the change came before the end
		}
		if !more {
			continue
		}
		got, met, err := read(with)
		switch {
		case err == nil && met:
			_ = finish(machine.Satisfied, nil) // whatever ended the wait, the value of this read is the result
			return got, nil
		case err == nil:
			value = got
			end(nil)
		case with.Err() == nil:
			return got, err
		default: // the end of the wait has ended the context of read
			over = true
		}
	}
	return value, finish(machine.Cancelled, context.Cause(ctx))
}

// readOnce is AwaitRead without time to wait.
func readOnce[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, read func(context.Context) (V, bool, error)) (V, error) {
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
