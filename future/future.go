package future

import (
	"context"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Result is what one source has delivered.
type Result[V any] struct {
	From  int // the source, counted from 0
	Value V
	Err   error // not nil: the source has failed, and this is none of the results wanted
}

// Future is a set of results that are still arriving, and, once it has ended, those
// that have. It is safe for concurrent use.
type Future[V any] struct {
	op gathering[V]
	at place
}

// place is where a future waits: a purgatory and the future's own key, whatever its
// type, so that the type of keys is no part of the type Future.
type place interface {
	check()
	signal()
	cancel(op operation.Operation, cause error) bool
}

type keyed[K comparable] struct {
	p   *purgatory.DelayedOperationPurgatory[K]
	key K
}

func (k *keyed[K]) check()  { k.p.CheckAndComplete(k.key) }
func (k *keyed[K]) signal() { k.p.Signal(k.key) }
func (k *keyed[K]) cancel(op operation.Operation, cause error) bool {
	return k.p.Cancel(op, cause)
}

// Gather returns a future that ends when c is met, and at the latest when timeout has
// passed; zero or less: at once.
//
// It waits in p, which may carry many futures and other operations, under keys. The
// first is its own: no other operation should wait there, or each is tried when the
// other is decided. Under further ones (a connection, a partition) p.CancelForKey ends
// all futures that share them.
//
// Errors: ErrInvalidCondition, and those of p.TryCompleteElseWatch.
func Gather[V any, K comparable](p *purgatory.DelayedOperationPurgatory[K], timeout time.Duration, c Condition, keys ...K) (*Future[V], error) {
	return GatherFunc[V](p, timeout, c, nil, keys...)
}

// GatherFunc is Gather for those who do not Wait: ended is called exactly once, with
// what Wait would return, unless GatherFunc returns an error. It is called where the
// future ends: on the goroutine of the last delivery, of Cancel or of Close, or on a
// worker of p when the timeout has passed; possibly before GatherFunc returns. It may
// do anything except wait.
func GatherFunc[V any, K comparable](p *purgatory.DelayedOperationPurgatory[K], timeout time.Duration, c Condition, ended func(results []Result[V], err error), keys ...K) (*Future[V], error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: a future of %v results", purgatory.ErrNoKeys, c)
	}
	f := &Future[V]{at: &keyed[K]{p: p, key: keys[0]}}
	f.op.condition, f.op.then, f.op.timeout = c, ended, timeout
	f.op.mu.seen = f.op.few[:]
	if c.sources > bitsPerWord*len(f.op.few) {
		f.op.mu.seen = make([]uint64, (c.sources+bitsPerWord-1)/bitsPerWord)
	}
	if _, err := p.TryCompleteElseWatch(&f.op, timeout, keys...); err != nil {
		return nil, err
	}
	return f, nil
}

// Deliver hands over the result of a source, counted from 0, or, if err is not nil, its
// failure. It reports whether the future has taken it. It has not if the source had
// delivered before, or if the future had enough, could not get enough, or had ended:
// the delivery changes nothing then.
//
// The delivery that decides the future ends it: what GatherFunc was given runs on
// this goroutine, before Deliver returns. A caller that holds a lock, see Post. Deliver
// panics if there is no such source. It does not block.
func (f *Future[V]) Deliver(from int, value V, err error) (taken bool) {
	taken, decides := f.op.deliver(Result[V]{From: from, Value: value, Err: err})
	if decides {
		f.at.check()
	}
	return taken
}

// Post is Deliver for a caller that holds locks of its own or is in a hurry: the
// result is handed over at once, but it is a worker of the purgatory that ends the
// future if this decides it, and runs the function of GatherFunc.
func (f *Future[V]) Post(from int, value V, err error) (taken bool) {
	taken, decides := f.op.deliver(Result[V]{From: from, Value: value, Err: err})
	if decides {
		f.at.signal()
	}
	return taken
}

// Cancel ends the future with the results that have arrived, and with cause as its
// error. It does nothing to a future that is decided or has ended. It does not block.
func (f *Future[V]) Cancel(cause error) { f.at.cancel(&f.op, cause) }

// Done returns a channel that is closed when the future has ended; Wait then returns
// at once.
func (f *Future[V]) Done() <-chan struct{} { return f.op.done() }

// Wait blocks until the future has ended and returns the results that have arrived,
// failures among them, in order of arrival; the caller must not change them. err is
// nil if those that were wanted are there. Otherwise errors.Is finds in it why they are
// not: ErrUnreachable, purgatory.ErrExpired, purgatory.ErrClosed, the cause given to
// Cancel or CancelForKey (purgatory.ErrCancelled if that was nil), or the cause of ctx;
// and the errors of the sources that have failed.
//
// When ctx ends, the future does, for everybody: whoever only looks on uses Done. It
// may be called again, and by several goroutines; not from callbacks, which must not
// block.
func (f *Future[V]) Wait(ctx context.Context) (results []Result[V], err error) {
	done := f.op.done()
	select {
	case <-done:
	case <-ctx.Done():
		f.at.cancel(&f.op, context.Cause(ctx))
		<-done // ended by this, or by whoever was faster
	}
	return f.op.verdict()
}
