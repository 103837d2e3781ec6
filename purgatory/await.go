package purgatory

import (
	"context"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/watchers"
)

// Await blocks the caller until ready returns true, timeout has passed, ctx ends, or
// a method of the purgatory ends the wait. When Await returns, the purgatory does not refer
// to the wait.
//
// Await calls ready twice before it blocks: before it registers the wait, and afterwards,
// for a change in between. From then on the goroutine that checks one of keys, or a
// worker after a signal, calls ready. Calls never overlap, and none begins after Await
// has returned. If ready returns true while the timeout passes or ctx ends, Await
// returns nil. If ctx ends while another goroutine runs ready, Await waits for the
// result. With a timeout of zero or less Await calls ready once, does not block, and
// returns [ErrExpired] if ready returned false. If ready returns true at first, Await
// returns nil even if ctx has ended or the purgatory is full, but [ErrClosed] if the
// purgatory has closed.
//
// If the first call of ready panics, so does Await. A panic in a later call goes to the
// panic handler and counts as false. A runtime.Goexit on the goroutine of Await, as FailNow
// of a test calls it, ends the wait as cancelled.
//
// Await makes two allocations, or three if there are more than four keys. It starts no
// goroutine and no timer of the runtime. Do not call it from a callback.
//
// Errors: [ErrExpired] after timeout; the cause of ctx; the cause that was given to
// CancelForKey; [ErrCancelled] if that is nil, or if ForceComplete ended the wait (the
// function match of CancelMatching is called with the operation behind it); [ErrClosed];
// and those of [DelayedOperationPurgatory.TryCompleteElseWatch]. Compare with errors.Is:
// all but the causes come wrapped in a text that says more.
func (p *DelayedOperationPurgatory[K]) Await(ctx context.Context, timeout time.Duration, ready func() bool, keys ...K) error {
	return p.await(ctx, timeout, ready, keys, nil)
}

// AwaitAt is [DelayedOperationPurgatory.Await] for positions. Before it blocks it calls
// ready as Await does. From then on CheckAndCompleteUpTo calls ready only if its position is
// at least that of the wait. A check without a position always calls ready.
//
//	replicated := func() bool { return partition.HighWatermark() > offset }
//	err := p.AwaitAt(ctx, 30*time.Second, replicated,
//		purgatory.KeyPosition[string]{Key: "orders-0", Position: offset + 1})
func (p *DelayedOperationPurgatory[K]) AwaitAt(ctx context.Context, timeout time.Duration, ready func() bool, at ...KeyPosition[K]) error {
	return p.await(ctx, timeout, ready, nil, at)
}

// AwaitValue is [DelayedOperationPurgatory.Await] for a condition with a result: it
// returns the value that ready returned together with true, and with an error the zero
// value. A long poll that answers with what there is when [ErrExpired] comes reads it then.
func AwaitValue[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, ready func() (V, bool), keys ...K) (V, error) {
	return awaitValue(ctx, p, timeout, ready, keys, nil)
}

// AwaitValueAt is [AwaitValue] for positions, as
// [DelayedOperationPurgatory.AwaitAt] is Await for positions.
func AwaitValueAt[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, ready func() (V, bool), at ...KeyPosition[K]) (V, error) {
	return awaitValue(ctx, p, timeout, ready, nil, at)
}

func awaitValue[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, ready func() (V, bool), keys []K, at []KeyPosition[K]) (value V, err error) {
	if ready == nil {
		return value, p.refuse(ErrNilOperation, "the function to wait for is nil")
	}
	err = p.await(ctx, timeout, func() bool {
		found, ok := ready()
		if ok {
			value = found
		}
		return ok
	}, keys, at)
	if err != nil { // ErrClosed may come although ready has returned true
		var none V
		return none, err
	}
	return value, nil
}

// firstShard returns the shard of the first key.
func (p *DelayedOperationPurgatory[K]) firstShard(keys []K, at []KeyPosition[K]) *watchers.Shard[K] {
	if len(keys) > 0 {
		return p.watchers.Shard(p.watchers.Hash(keys[0]))
	}
	return p.watchers.Shard(p.watchers.Hash(at[0].Key))
}

// endedAtOnce counts a wait that ended before it was registered, and returns err. If the
// purgatory has closed, it returns ErrClosed instead. first is the shard of the first key.
func (p *DelayedOperationPurgatory[K]) endedAtOnce(first *watchers.Shard[K], o machine.Outcome, err error) error {
	if !first.Pass(o) {
		return p.refuse(ErrClosed, "while trying")
	}
	first.Gate().Enter()
	first.Gate().Exit(1)
	return err
}

// awaiting is the operation behind Await.
type awaiting struct {
	operation.DelayedOperation
	ready func() bool
	ended chan struct{}
}

func (w *awaiting) TryComplete() bool { return w.ready() }
func (w *awaiting) OnComplete()       { close(w.ended) }
func (w *awaiting) OnExpiration()     {}
func (w *awaiting) waitsIn() string   { return "Await" }

func (p *DelayedOperationPurgatory[K]) await(ctx context.Context, timeout time.Duration, ready func() bool, keys []K, at []KeyPosition[K]) error {
	if ready == nil {
		return p.refuse(ErrNilOperation, "the function to wait for is nil")
	}
	w := &awaiting{ready: ready}
	if n := len(keys) + len(at); p.refuses(n) {
		return p.refusal(w, n)
	}
	var few [fewKeys]K // a copy, as in register: ready may write to the caller's slice
	keys = append(few[:0], keys...)
	var fewAt [fewKeys]KeyPosition[K]
	at = append(fewAt[:0], at...)
	done := ctx.Done()
	if ready() { // w is not registered, so it needs no channel
		return p.endedAtOnce(p.firstShard(keys, at), machine.Satisfied, nil)
	}
	if timeout <= 0 {
		return p.endedAtOnce(p.firstShard(keys, at), machine.Expired, p.errorf(ErrExpired, "after %v", timeout))
	}
	w.ended = make(chan struct{})
	returned := false
	defer func() {
		if !returned { // ready has called runtime.Goexit
			p.Cancel(w, nil)
		}
	}()
	completed, err := p.register(w, timeout, keys, at, true)
	returned = true
	if err != nil {
		return err
	}
	if !completed {
		if !sched.Either(w.ended, done) {
			p.Cancel(w, context.Cause(ctx))
			sched.Either(w.ended, nil) // this Cancel has ended w, or another goroutine has or is about to
		}
	}
	return p.howEnded(&w.DelayedOperation, timeout)
}

// howEnded returns what a wait returns once its operation has ended.
func (p *DelayedOperationPurgatory[K]) howEnded(o *operation.DelayedOperation, timeout time.Duration) error {
	switch o.Outcome() {
	case operation.Satisfied:
		return nil
	case operation.Expired:
		return p.errorf(ErrExpired, "after %v", timeout)
	case operation.Cancelled:
		if cause := o.Cause(); cause != nil {
			return cause
		}
		return p.errorf(ErrCancelled, "without a cause")
	case operation.Forced:
		return p.errorf(ErrCancelled, "by ForceComplete")
	default:
		return p.errorf(ErrClosed, "while waiting")
	}
}
