package future

import (
	"context"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Result is what one source has delivered.
type Result[V any] struct {
	From  int   // the source, counted from 0
	Value V     // what the source has delivered; also kept if Err is not nil
	Err   error // if it is not nil, the source has failed and does not count towards the k
}

// Future is a set of results that arrive one by one. It is made by [Gather] or
// [GatherFunc] and is safe for concurrent use. Its methods may be called from any
// callback, except [Future.Wait], which blocks.
type Future[V any] struct {
	op gathering[V]
	at place
}

// place is where a future waits: a purgatory and the future's own key. It is an
// interface so that Future needs no type parameter for keys.
type place interface {
	check()
	signal()
	cancel(op operation.Operation, cause error) bool
}

type keyed[K comparable] struct {
	p   *purgatory.Purgatory[K]
	key K
}

func (k *keyed[K]) check()  { k.p.CheckAndComplete(k.key) }
func (k *keyed[K]) signal() { k.p.Signal(k.key) }
func (k *keyed[K]) cancel(op operation.Operation, cause error) bool {
	return k.p.Cancel(op, cause)
}

// Gather returns a future that ends when condition c is met, and at the latest when
// timeout has passed. With a timeout of zero or less the future expires at once. Gather
// does not block.
//
// The future waits in p under keys. p may hold many futures and other operations at the
// same time. The first key should be the future's own, for instance the number of the
// request: if another operation waits under it, each of the two is tried when the other
// one is decided. Several futures may share further keys, for instance the name of a
// connection or of a partition: p.CancelForKey then ends all of them.
//
// Errors: [ErrInvalidCondition], and those of p.TryCompleteElseWatch (purgatory.ErrClosed,
// ErrFull, ErrNoKeys). The future is nil then.
func Gather[V any, K comparable](p *purgatory.Purgatory[K], timeout time.Duration, c Condition, keys ...K) (*Future[V], error) {
	return GatherFunc[V](p, timeout, c, nil, keys...)
}

// GatherFunc is [Gather] for callers that do not want to block in [Future.Wait]. When
// the future has ended, ended is called exactly once, with what Wait returns. If
// GatherFunc returns an error, ended is never called.
//
// ended usually runs on the goroutine that ends the future: the one whose Deliver decides
// it, that cancels it, whose context ends in Wait, or that closes p. It runs on a worker
// of p when the timeout has passed, and after Post and Shutdown. It may run before
// GatherFunc returns, for instance if the timeout is zero.
//
// ended may call any method that does not block, of this future or of another; no lock
// of this library is held. While it blocks, so do the functions of the futures that the same
// call ends after this one, as CancelForKey of a key that they share, and their Wait, whatever
// its context. If you hold a lock that ended takes, use [Future.Post].
//
// Errors: those of Gather.
func GatherFunc[V any, K comparable](p *purgatory.Purgatory[K], timeout time.Duration, c Condition, ended func(results []Result[V], err error), keys ...K) (*Future[V], error) {
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

// Deliver hands over the result of the source from, counted from 0. If err is not nil,
// the source has failed. Deliver reports whether the future has taken the result. It
// has not if the source had delivered before, or if the future was decided or had
// ended; the delivery then changes nothing.
//
// The delivery that decides the future ends it: the function of [GatherFunc] runs on
// this goroutine before Deliver returns. There are exceptions: see GatherFunc. Inside a TryComplete
// of the same purgatory, or on a very deep stack, Deliver leaves that to a worker. If
// another goroutine is trying or ending the future at this moment, Deliver leaves it to
// that goroutine. If you hold a lock that the function takes, use [Future.Post].
//
// Deliver panics if from is not a source of the future. It does not block, unless the
// function of GatherFunc does.
func (f *Future[V]) Deliver(from int, value V, err error) (taken bool) {
	taken, decides := f.op.deliver(Result[V]{From: from, Value: value, Err: err})
	if decides {
		f.at.check()
	}
	return taken
}

// Post is [Future.Deliver] for a caller that holds locks or must return quickly. It
// hands over the result at once. If the result decides the future, a worker of the
// purgatory ends the future and runs the function of [GatherFunc]. Post does not block.
func (f *Future[V]) Post(from int, value V, err error) (taken bool) {
	taken, decides := f.op.deliver(Result[V]{From: from, Value: value, Err: err})
	if decides {
		f.at.signal()
	}
	return taken
}

// Cancel ends the future with the results that have arrived and with cause as its
// error; if cause is nil, with purgatory.ErrCancelled. It does not change the results
// and the error of a future that is decided or has ended. If Cancel ends the future, the
// function of [GatherFunc] runs on this goroutine. Cancel does not block, unless that
// function does.
func (f *Future[V]) Cancel(cause error) { f.at.cancel(&f.op, cause) }

// Done returns a channel that is closed when the future has ended. [Future.Wait] then
// returns at once. The function of [GatherFunc] may still be running.
func (f *Future[V]) Done() <-chan struct{} { return f.op.done() }

// Wait blocks until the future has ended. It returns the results that have arrived,
// including failures, in the order of their arrival. All callers of Wait get the same
// slice and must not change it.
//
// err is nil if the wanted results have arrived.
//
// Errors, for errors.Is: [ErrUnreachable], purgatory.ErrExpired, purgatory.ErrClosed,
// the cause given to [Future.Cancel] or CancelForKey (purgatory.ErrCancelled if that was
// nil), or the cause of ctx; and in addition the errors of the sources that have failed.
//
// When ctx ends, Wait cancels the future, for every goroutine that waits for it. To wait
// for a bounded time and leave the future alone, use [Future.Done]. Wait may be called
// several times and by several goroutines, but not from callbacks, because it blocks.
func (f *Future[V]) Wait(ctx context.Context) (results []Result[V], err error) {
	done := f.op.done()
	if !sched.Either(done, ctx.Done()) {
		f.at.cancel(&f.op, context.Cause(ctx))
		sched.Receive(done) // this Cancel has ended the future, or something else has a moment earlier
	}
	return f.op.verdict()
}
