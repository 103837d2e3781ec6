package purgatory

import (
	"context"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// Await blocks the caller until ready returns true, timeout has passed, ctx ends, or a method of the purgatory ends
// the wait. Do not call it from a callback.
//
// Await calls ready before it registers the wait, and once more afterwards, for a change in between. From then on the
// goroutine that checks one of keys calls it, or a worker after a signal. Calls never overlap, and none begins after
// Await has returned. With a timeout of zero or less Await calls ready once, and does not block.
//
// Whenever ready has returned true, Await returns nil, even if ctx has ended, the timeout has passed or the purgatory
// has closed meanwhile: what ready has taken is the caller's. Once ctx has ended, ready is not called (see
// [Stats].PassedOver); for the result of a call that had begun before, Await waits.
//
// If the first call of ready panics, so does Await. A panic in a later call goes to the panic handler and counts as
// false. A runtime.Goexit on the goroutine of Await ends the wait as cancelled.
//
// Await allocates nothing of its own if ready returns true at first. A wait makes one allocation; one more where no
// earlier wait has left it a channel, and one where no earlier operation has left its key a list; at most one more for
// each key beyond the first (48 bytes), and one for more than four keys. It starts no goroutine and no timer of the
// runtime.
//
// Errors: [ErrExpired] after timeout; the cause of ctx, unchanged; the cause that was given to CancelForKey;
// [ErrCancelled] if that is nil; [ErrClosed]; and those of [Purgatory.TryCompleteElseWatch]. Compare with errors.Is:
// all but the causes come wrapped in a text that says more.
func (p *Purgatory[K]) Await(ctx context.Context, timeout time.Duration, ready func() bool, keys ...K) error {
	return p.await(ctx, timeout, ready, keys, nil, func() *await { return &await{ready: ready} })
}

// AwaitAt is [Purgatory.Await] for positions: CheckAndCompleteUpTo calls ready only if its position is at least that
// of the wait. Where many goroutines wait for the same position and nothing else, those of package watermark share one
// operation.
//
//	replicated := func() bool { return partition.HighWatermark() > offset }
//	err := p.AwaitAt(ctx, 30*time.Second, replicated,
//		purgatory.KeyPosition[string]{Key: "orders-0", Position: offset + 1})
func (p *Purgatory[K]) AwaitAt(ctx context.Context, timeout time.Duration, ready func() bool, at ...KeyPosition[K]) error {
	return p.await(ctx, timeout, ready, nil, at, func() *await { return &await{ready: ready} })
}

// AwaitValue is [Purgatory.Await] for a condition with a result: it returns the value that ready returned together
// with true, and with an error the zero value.
func AwaitValue[V any, K comparable](ctx context.Context, p *Purgatory[K], timeout time.Duration, ready func() (V, bool), keys ...K) (V, error) {
	var value V
	if ready == nil {
		return value, p.refusal(ErrNilOperation, "the function to wait for is nil")
	}
	got := &value
	err := p.await(ctx, timeout, func() bool { return found(ready, &value) }, keys, nil, func() *await {
		var w struct { // one allocation
			await
			value V
		}
		w.ready, got = func() bool { return found(ready, &w.value) }, &w.value
		return &w.await
	})
	return *got, err
}

// found keeps what ready returns with true: the wait ends with a nil error then, whatever else ends it at this moment.
func found[V any](ready func() (V, bool), value *V) bool {
	v, ok := ready()
	if ok {
		*value = v
	}
	return ok
}

// await is the operation behind Await and behind a Wait. Its end closes a channel without a buffer; one with a buffer
// gets a token, so that it can be used again.
type await struct {
	operation.DelayedOperation
	ready func() bool // nil after the last try; see docs/internals/decisions.md#a-condition-is-a-function
	ended chan struct{}
	done  <-chan struct{} // of the context; when it is closed, nobody waits any more
}

// TryComplete makes its last try when ready returns true, or the context has ended: then nothing is for w any more.
func (w *await) TryComplete() (met bool) {
	gone := sched.Closed(w.done)
	if met = !gone && w.ready(); met || gone {
		w.ready = nil
	}
	return met
}

func (w *await) OnExpiration() {}

func (w *await) OnComplete() {
	if cap(w.ended) == 0 {
		close(w.ended)
	} else {
		w.ended <- struct{}{}
	}
}

// OnlyWakes implements [machine.Waker].
func (w *await) OnlyWakes() bool { return true }

// await tries ready, and waits with the operation that wait returns.
func (p *Purgatory[K]) await(ctx context.Context, timeout time.Duration, ready func() bool, keys []K, at []KeyPosition[K], wait func() *await) error {
	mustContext(ctx, "Await")
	var few [fewKeys]watchers.Wait[K] // filled before ready, which may write to keys, or to at
	waits, err := p.waits(few[:], keys, at)
	done := ctx.Done()
	switch {
	case ready == nil:
		return p.refusal(ErrNilOperation, "the function to wait for is nil")
	case err != nil:
		return err
	case p.Closed():
		return p.refusal(ErrClosed, "Await")
	case sched.Closed(done):
		p.passedOver.Add(1)
		p.gaveUp.Add(1)
		return context.Cause(ctx)
	case ready():
		p.watchers.Early(waits[0].Hash, machine.Satisfied)
		return nil
	case timeout > 0:
		w := wait()
		w.done = done
		return p.block(ctx, w, timeout, waits)
	case p.Closed():
		return p.refusal(ErrClosed, "while trying")
	}
	p.watchers.Early(waits[0].Hash, machine.Expired)
	return p.errorf(ErrExpired, "after %v", timeout)
}

func (p *Purgatory[K]) block(ctx context.Context, w *await, timeout time.Duration, waits []watchers.Wait[K]) error {
	if h := p.cfg.hook; h != nil {
		h.Await()
	}
	if w.ended, _ = p.channels.Get().(chan struct{}); w.ended == nil {
		w.ended = make(chan struct{}, 1)
	}
	defer func() {
		if w.Outcome() == operation.Pending { // ready, or another operation's method, has called runtime.Goexit, or a context has panicked
			p.Cancel(w, nil)
		}
	}()
	if _, err := (&registration[K]{p: p, op: w, timeout: timeout}).enroll(waits, true); err != nil {
		return err
	}
	if !sched.Either(w.ended, w.done) {
		cause := context.Cause(ctx)
		p.endNow(w, machine.Cancelled, &cause)
		sched.Receive(w.ended) // this call has ended w, or another goroutine has or is about to
		if w.Outcome() == operation.Cancelled {
			p.gaveUp.Add(1)
		}
	}
	if w.ready == nil && w.Outcome() != operation.Satisfied {
		p.passedOver.Add(1)
	}
	if _, manual := p.cfg.timer.(*timer.ManualTimer); !manual { // otherwise the next wait may be in another bubble of synctest
		p.channels.Put(w.ended) // which is empty: an accepted wait sends one token, and receives it
	}
	return p.howEnded(&w.DelayedOperation, timeout)
}

func (p *Purgatory[K]) howEnded(o *operation.DelayedOperation, timeout time.Duration) error {
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
