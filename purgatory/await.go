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
// returns [ErrExpired] if ready returned false. ([WithFirstInFirstOut]: not before those who wait have been served; see there.) Whenever ready has returned true, Await
// returns nil, even if ctx has ended, or the purgatory is full or has closed meanwhile: what
// ready has taken is the caller's.
//
// Nothing is for who has left: ready is not called once ctx has ended, neither at first nor by a check that
// comes before the caller's goroutine has run. [Stats].PassedOver counts that. What may still cross is a call of
// ready that had begun before.
//
// A wait needs no key if its timeout is positive and not [NoTimeout]: it ends with its timeout or its context. Such waits
// together count as one key in [Stats].
//
// If the first call of ready panics, so does Await. A panic in a later call goes to the
// panic handler and counts as false. A runtime.Goexit on the goroutine of Await, as FailNow
// of a test calls it, ends the wait as cancelled.
//
// Await allocates nothing of its own if ready returns true at first; the function itself may be allocated by
// the caller, so where that counts compare first, and then call Await. Who does so also knows who had to wait:
// those who went on to Await (see the example Waited). A wait makes one allocation, or two if
// it has several keys. Await starts no goroutine and no timer of the runtime. Do not call it from a callback.
//
// Errors: [ErrExpired] after timeout; the cause of ctx, which is ctx.Err() itself unless ctx was given another
// one; the cause that was given to
// CancelForKey; [ErrCancelled] if that is nil, or if CompleteForKey or ForceComplete ended the wait (the
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
// Waits for one position share the pass that wakes them: one check goes over their list once, and takes
// its lock 17 times for 128 of them, for a microsecond or two each. They share nothing else. Each has a condition of its own, which the
// check calls, a timeout and a context. Where many goroutines wait for the same position, and the
// position is all that they wait for, those of package watermark share the operation, too.
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

func awaitValue[V any, K comparable](ctx context.Context, p *DelayedOperationPurgatory[K], timeout time.Duration, ready func() (V, bool), keys []K, at []KeyPosition[K]) (value V, err error) {
	if ready == nil {
		return value, p.refuse(ErrNilOperation, "the function to wait for is nil")
	}
	err = p.await(ctx, timeout, func() bool {
		found, ok := ready()
		if ok { // the wait ends with a nil error then, whatever else ends it at this moment
			value = found
		}
		return ok
	}, keys, at)
	return value, err
}

// endedAtOnce counts a wait that ended before it was registered, unless the purgatory has
// closed meanwhile. first is the shard of the first key.
func (p *DelayedOperationPurgatory[K]) endedAtOnce(first *watchers.Shard[K], o machine.Outcome) (counted bool) {
	if counted = first.Pass(o); counted {
		first.Gate().Enter()
		first.Gate().Exit(1)
	}
	return counted
}

// waiter is the operation behind Await and behind a Wait. Its end closes a channel without a
// buffer; one with a buffer gets a token, so that it can be used again. It keeps the caller's function: see
// docs/decisions.md#a-condition-is-a-function.
type waiter struct {
	operation.DelayedOperation
	ready func() bool
	ended chan struct{}
	done  <-chan struct{} // of the context; when it is closed, nobody waits any more
	// The holder writes these:
	met  bool // ready has returned true in TryComplete
	gone bool // a try, or a check in order, found that its context had ended
}

func (w *waiter) TryComplete() bool {
	w.met = !w.left() && w.ready()
	return w.met
}

// left reports whether the context has ended: then nothing is for w any more.
func (w *waiter) left() bool {
	w.gone = w.gone || sched.Closed(w.done)
	return w.gone
}

func (w *waiter) OnExpiration() {}

func (w *waiter) OnComplete() {
	if cap(w.ended) == 0 {
		close(w.ended)
	} else {
		w.ended <- struct{}{}
	}
}

func (w *waiter) WaitsIn() string {
	if cap(w.ended) > 0 {
		return "Await"
	}
	return "Wait"
}

// OnlyWakes implements [machine.Waker].
func (w *waiter) OnlyWakes() bool { return true }

func (p *DelayedOperationPurgatory[K]) await(ctx context.Context, timeout time.Duration, ready func() bool, keys []K, at []KeyPosition[K]) error {
	if ready == nil {
		return p.refuse(ErrNilOperation, "the function to wait for is nil")
	}
	n := len(keys) + len(at)
	if p.refuses(n, timeout) {
		return p.refusal(&waiter{ended: make(chan struct{}, 1)}, n)
	}
	mustContext(ctx, "Await")
	if timeout > 0 && timeout < p.tick {
		p.hasty(timeout)
	}
	done := ctx.Done()
	if sched.Closed(done) {
		p.passedOver.Add(1)
		return context.Cause(ctx)
	}
	if n != 1 || p.cfg.firstInFirstOut {
		return p.awaitSet(ctx, done, timeout, ready, keys, at)
	}
	var wait [1]watchers.Wait[K] // filled before ready, which may write to keys, or to at
	if len(at) == 1 {
		wait[0].Key, wait[0].Position = at[0].Key, at[0].Position
	} else {
		wait[0].Key, wait[0].Position = keys[0], AnyPosition
	}
	wait[0].Hash = p.watchers.Hash(wait[0].Key)
	first := p.watchers.Shard(wait[0].Hash)
	if ready() {
		first.Met()
		return nil
	}
	return p.block(ctx, done, timeout, ready, wait[:], first)
}

// awaitSet is await for any number of keys, in line or not.
func (p *DelayedOperationPurgatory[K]) awaitSet(ctx context.Context, done <-chan struct{}, timeout time.Duration, ready func() bool, keys []K, at []KeyPosition[K]) error {
	var set keySet[K]
	waits := set.fill(p, keys, at)
	defer set.release(p)
	first := p.watchers.Shard(waits[0].Hash)
	if (!p.inLine(waits) || !p.othersWait(waits)) && ready() {
		first.Met()
		return nil
	}
	return p.block(ctx, done, timeout, ready, waits, first)
}

// block goes on with a wait whose condition is not met, or for which it is too early to ask: first is the
// shard of its first key.
func (p *DelayedOperationPurgatory[K]) block(ctx context.Context, done <-chan struct{}, timeout time.Duration, ready func() bool, waits []watchers.Wait[K], first *watchers.Shard[K]) error {
	if timeout <= 0 {
		if !p.endedAtOnce(first, machine.Expired) {
			return p.refuse(ErrClosed, "while trying")
		}
		return p.errorf(ErrExpired, "after %v", timeout)
	}
	if h := p.cfg.hook; h != nil {
		h.Await()
	}
	ended, again := waitChannel()
	w := &waiter{ready: ready, ended: ended, done: done}
	returned := false
	defer func() {
		if !returned { // ready, or another operation's method, has called runtime.Goexit, or a context has panicked
			p.Cancel(w, nil)
		}
	}()
	m := machine.Of(w)
	m.Begin(w, len(waits), p.id)
	if _, err := p.registerHeld(m, timeout, waits, true); err != nil {
		returned = true
		return err
	}
	if !sched.Either(w.ended, done) {
		p.Cancel(w, context.Cause(ctx))
		sched.Receive(w.ended) // this Cancel has ended w, or another goroutine has or is about to
	}
	returned = true
	if w.gone {
		p.passedOver.Add(1)
	}
	if again {
		waitChannels.Put(ended)
	}
	return p.howEnded(&w.DelayedOperation, timeout)
}

var waitChannels sched.Pool // of chan struct{}

// waitChannel returns a channel for one token: that of an earlier wait, if there is one. Each accepted wait
// sends one token and receives it, so that its channel is free then, and again says whether it may serve a later
// wait. See docs/decisions.md#await-uses-its-channel-again.
func waitChannel() (c chan struct{}, again bool) {
	if again = !sched.InBubble(); again {
		if c, ok := waitChannels.Get().(chan struct{}); ok {
			return c, true
		}
	}
	return make(chan struct{}, 1), again
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
		return p.errorf(ErrCancelled, "by CompleteForKey or ForceComplete")
	default:
		return p.errorf(ErrClosed, "while waiting")
	}
}

// Wait is a wait that a goroutine can select on, beside its other channels: see
// [DelayedOperationPurgatory.StartWait]. It is safe for concurrent use.
type Wait[K comparable] struct {
	op      waiter
	p       *DelayedOperationPurgatory[K]
	timeout time.Duration
}

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
// If ready takes something, and Stop returns false, another goroutine may have ended the wait with
// it: receive from Done and look at Err. If that is nil, the caller has what ready took.
//
// If ready is met at once, the channel of Done is closed when StartWait returns: the wait did not have to wait.
//
// A Wait has no goroutine. It and its channel are two allocations. Many goroutines may receive
// from the channel of one Wait. Where they wait for the same position, package watermark lets them share
// an operation. Call Stop when you no longer need it. As with Await, it may have no key. Errors: those of
// [DelayedOperationPurgatory.TryCompleteElseWatch], but none once ready has returned true.
func (p *DelayedOperationPurgatory[K]) StartWait(timeout time.Duration, ready func() bool, keys ...K) (*Wait[K], error) {
	return p.startWait(timeout, ready, keys, nil)
}

func (p *DelayedOperationPurgatory[K]) startWait(timeout time.Duration, ready func() bool, keys []K, at []KeyPosition[K]) (*Wait[K], error) {
	if ready == nil {
		return nil, p.refuse(ErrNilOperation, "the function to wait for is nil")
	}
	w := &Wait[K]{p: p, timeout: timeout}
	w.op.ready, w.op.ended = ready, make(chan struct{})
	returned := false
	defer func() {
		if !returned { // ready has called runtime.Goexit
			w.Stop()
		}
	}()
	_, err := p.register(&w.op, timeout, keys, at)
	if returned = true; err != nil {
		if !w.op.met {
			return nil, err
		}
		close(w.op.ended) // the purgatory has closed meanwhile: the yes is the caller's all the same
	}
	return w, nil
}

// Done returns a channel that is closed when the wait has ended.
func (w *Wait[K]) Done() <-chan struct{} { return w.op.ended }

// Err returns how the wait has ended, with the errors of [DelayedOperationPurgatory.Await]: nil
// if ready has returned true. Call it after Done's channel is closed; before, it returns
// [ErrPending].
func (w *Wait[K]) Err() error {
	if w.op.Outcome() != operation.Pending {
		return w.p.howEnded(&w.op.DelayedOperation, w.timeout)
	}
	select {
	case <-w.op.ended: // ready had returned true before the wait could begin
		return nil
	default:
		return w.p.errorf(ErrPending, "the wait has not ended")
	}
}

// Stop ends the wait as cancelled, so that nothing refers to it, and reports whether this call
// has ended it. It returns false if the wait has ended, or if another goroutine is calling ready
// at this moment: that goroutine ends it then.
func (w *Wait[K]) Stop() bool { return w.p.endNow(&w.op, machine.Cancelled, &errNone) }

// errNone is the cause of a wait that was stopped: a variable, so that Stop allocates none.
var errNone error
