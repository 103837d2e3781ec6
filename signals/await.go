package signals

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// The pauses before a read that has failed is made again: the first, and the longest.
const firstRetry, longestRetry = 50 * time.Millisecond, 2 * time.Second

// AwaitRead waits for a condition that must be read from a database, a file or another process. It calls read
// on the caller's goroutine, where read may block; a check or a signal of a key only wakes that goroutine. It
// returns what the first read returns that says done.
//
// AwaitRead registers the wait before the first read. A check or a signal that comes while a read runs causes another
// read; several of them cause one. So no change is lost that was made before its signal. No lock is held while read
// runs. AwaitRead starts no goroutine, but package context starts one for each read, while it runs, if ctx is not of
// that package.
//
// A read that fails, with an error and without done, is made again while the wait lasts: after a pause of 25 to 50 ms
// at first, which doubles up to 1 to 2 s, or at once when a check or a signal comes. An error that trying again
// cannot mend goes to the caller from a read that returns it with done.
//
// While a read blocks, signals and cancellations cannot interrupt it except through its context, which ends when
// read returns, or when the wait ends: give requests to other processes a time limit, because a request whose
// connection breaks may never be answered. Take the connection from its pool before the time limit begins: else
// reads that queue for a connection after a gap use up their time there.
//
// The wait can also end as one of [purgatory.Purgatory.Await] does, with the same errors:
// [purgatory.ErrExpired] after timeout, the cause of ctx, the cause given to CancelForKey, [purgatory.ErrClosed],
// and those of a registration. If the last read has failed, its error is wrapped, too. AwaitRead then returns the
// value of the last read that succeeded, so that a fetch whose timeout has passed can answer with what it has. If
// the wait ends during a read, AwaitRead waits until that returns, and if it says done, returns what it has
// returned. If a change is signalled just before the timeout, and the caller's goroutine wakes up only after it,
// AwaitRead reads once more, with ctx itself. A wait that is cancelled before its first read makes none, nor does
// one whose ctx has ended. With a timeout of zero or less AwaitRead reads once, with ctx, and neither registers nor blocks.
//
// A CancelForKey that comes in the microsecond in which a check wakes the wait may miss it. Where that matters, let
// read see what the cancellation is about.
//
// In the purgatory's Stats, each wake-up of a wait that sleeps counts as a satisfied operation, or as a rejected one where
// the purgatory is full or drains; one whose read has said done as a forced one, and one that an error of read ends as a
// cancelled one. A panic in read goes to the caller. Do not call AwaitRead from a callback.
func AwaitRead[V any, K comparable](ctx context.Context, p *purgatory.DelayedOperationPurgatory[K], timeout time.Duration, read func(context.Context) (value V, done bool, err error), keys ...K) (value V, err error) {
	switch {
	case ctx == nil:
		panic("signals: AwaitRead was called with a nil context: use context.Background()")
	case p == nil:
		panic("signals: AwaitRead was called with a nil purgatory")
	case read == nil:
		return value, fmt.Errorf("signals: AwaitRead: %w: read is nil", purgatory.ErrNilOperation)
	case sched.Closed(ctx.Done()):
		return value, context.Cause(ctx)
	case timeout > 0:
		return awaitDone(ctx, p, timeout, read, keys)
	case len(keys) == 0:
		return value, fmt.Errorf("signals: AwaitRead: %w", purgatory.ErrNoKeys)
	case p.Closed():
		return value, fmt.Errorf("signals: AwaitRead: %w", purgatory.ErrClosed)
	}
	value, done, err := read(ctx)
	if !done && err == nil {
		err = expired(timeout)
	}
	return value, err
}

func expired(timeout time.Duration) error {
	return fmt.Errorf("signals: AwaitRead: %w after %v", purgatory.ErrExpired, timeout)
}

// awaitDone is AwaitRead that may have to wait.
func awaitDone[V any, K comparable](ctx context.Context, p *purgatory.DelayedOperationPurgatory[K], timeout time.Duration, read func(context.Context) (V, bool, error), keys []K) (value V, err error) {
	r := &reader[K]{p: p, keys: slices.Clone(keys), timeout: timeout, woken: sched.NewToken()}
	r.first.reader = r
	if err := r.watch(&r.first, timeout); err != nil {
		return value, err
	}
	met := false
	defer func() { // also if read panics, or calls runtime.Goexit
		cause := err
		if sched.Closed(ctx.Done()) {
			cause = context.Canceled // so that the purgatory counts who has given up, whatever the context's cause
		}
		r.finish(met, cause)
	}()
	var failed error    // of the last read
	var again time.Time // when to make it again; zero: it has not failed
	pauses := backoff{first: firstRetry, longest: longestRetry}
	for due := true; ; {
		over := r.over.Load() // before asked: nobody asks after the end
		due = r.asked.Swap(false) || due || !again.IsZero() && sched.Since(again) >= 0
		switch {
		case sched.Closed(ctx.Done()):
			return value, because(context.Cause(ctx), failed)
		case over != nil && (!due || over.Outcome() != operation.Expired):
			return value, because(r.howEnded(over), failed)
		case !due:
			r.sleep(ctx.Done(), again)
			continue
		}
		// Each read has a context of its own, which does not outlive it: to link it to one that is not of package
		// context takes a goroutine, and mostly no read runs.
		with, end := ctx, context.CancelCauseFunc(func(error) {})
		if over == nil {
			with, end = context.WithCancelCause(ctx)
			if r.end.Store(&end); r.over.Load() != nil { // it has perhaps ended before there was this end
				end(nil)
				continue
			}
		}
		due, again = false, time.Time{}
		got, done, cut, broken := readOnce(with, end, read)
		switch {
		case done:
			met = broken == nil
			return got, broken
		case broken == nil:
			value, failed = got, nil
			pauses.reset()
		case !cut:
			failed, again = broken, sched.Now().Add(pauses.next())
		}
	}
}

// readOnce calls read, and ends its context afterwards. It reports whether that had ended before.
func readOnce[V any](ctx context.Context, end context.CancelCauseFunc, read func(context.Context) (V, bool, error)) (value V, done, cut bool, err error) {
	defer func() { end(err) }()
	value, done, err = read(ctx)
	return value, done, ctx.Err() != nil, err
}

// because returns the error of a wait that has ended with err, and whose last read has failed, or has not.
func because(err, failed error) error {
	if failed == nil {
		return err
	}
	return fmt.Errorf("%w; the last read failed: %w", err, failed)
}

// reader is a wait of AwaitRead. It wakes its goroutine as follows:
//
//  1. An operation waits under the keys for as long as the wait lasts. While it is not placed, a try of it does nothing:
//     the registration's own tries are such.
//  2. The goroutine reads after an operation is placed, and registered therefore. So a change whose check came before
//     that is seen by the read, and a check that comes later finds the operation.
//  3. A try of a placed operation while the goroutine does not sleep says no, and asks for another read. So the
//     operation goes on through a read: the timeout, a cancellation and Close end it, and with it the context of the read.
//  4. A try that finds that the goroutine sleeps takes that mark, so that no other does, registers and places the next
//     operation, asks for a read, and says yes. A check that meets the next operation before it is placed does nothing;
//     but a read is asked for after that, and sees the change.
//  5. If the next operation is refused, because the purgatory is full or drains or the time is over, the try says no, as in 3:
//     so a wait keeps its place for as long as it lasts.
//  6. Asked is set before the token is put, and the goroutine looks at asked whenever it has taken the token, and before
//     it sleeps again. So each request is seen, and at most one read is made for those that come before it begins.
//  7. An operation that ends otherwise than by a yes ends the wait. That is so of one at most: the next one exists before
//     its predecessor says yes, and a yes wins over what else would end that.
type reader[K comparable] struct {
	p       *purgatory.DelayedOperationPurgatory[K]
	keys    []K
	timeout time.Duration
	woken   sched.Token                            // the goroutine has something to look at
	asked   sched.Bool                             // a check has come
	asleep  sched.Bool                             // the next try may say yes
	pending sched.Int64                            // operations that are being registered, or have not been answered
	live    sched.Pointer[wakeUp[K]]               // the last one that was registered
	over    sched.Pointer[wakeUp[K]]               // the one that has ended the wait
	end     sched.Pointer[context.CancelCauseFunc] // of the context of the last read
	first   wakeUp[K]
}

// wakeUp is an operation of an AwaitRead.
type wakeUp[K comparable] struct {
	operation.DelayedOperation
	reader *reader[K]
	placed sched.Bool
}

// watch registers and places an operation.
func (r *reader[K]) watch(w *wakeUp[K], timeout time.Duration) error {
	r.pending.Add(1)
	if _, err := r.p.TryCompleteElseWatch(w, timeout, r.keys...); err != nil {
		r.pending.Add(-1)
		return err
	}
	r.live.Store(w)
	w.placed.Store(true)
	return nil
}

// next registers the operation that follows.
func (r *reader[K]) next() bool {
	left := r.timeout
	if left != purgatory.NoTimeout {
		left -= r.p.Waited(&r.first) // on the clock of the purgatory, which the program may move
	}
	return left > 0 && r.watch(&wakeUp[K]{reader: r}, left) == nil
}

func (w *wakeUp[K]) TryComplete() bool {
	r := w.reader
	if !w.placed.Load() {
		return false
	}
	yes := r.asleep.Swap(false) && r.next()
	r.asked.Store(true)
	if !yes {
		r.woken.Put()
	}
	return yes
}

func (w *wakeUp[K]) OnComplete() {
	r := w.reader
	defer func() { // also if a context of the user's panics
		r.pending.Add(-1)
		r.woken.Put()
	}()
	if w.Outcome() == operation.Satisfied {
		return
	}
	r.over.Store(w)
	if end := r.end.Load(); end != nil {
		(*end)(r.howEnded(w))
	}
}

func (w *wakeUp[K]) OnExpiration() {}

// sleep waits until somebody asks for a read, the wait has ended, its context has, or it is time to read again.
// It may return earlier.
func (r *reader[K]) sleep(done <-chan struct{}, again time.Time) {
	r.asleep.Store(true)
	if again.IsZero() {
		sched.Either(r.woken, done)
	} else {
		sched.Sleep(-sched.Since(again), r.woken, done, nil)
	}
	r.asleep.Store(false)
}

// finish ends the wait, unless it has ended, and returns when no operation of it is left. A try that has found the
// goroutine asleep may be registering one: then its end wakes the goroutine, which looks again.
func (r *reader[K]) finish(met bool, cause error) {
	for r.pending.Load() > 0 {
		if w := r.live.Load(); met {
			r.p.ForceComplete(w)
		} else {
			r.p.Cancel(w, cause)
		}
		if r.pending.Load() > 0 {
			sched.Receive(r.woken)
		}
	}
}

// howEnded returns the error of a wait that w has ended.
func (r *reader[K]) howEnded(w *wakeUp[K]) error {
	err := purgatory.ErrCancelled // without a cause
	switch cause := w.Cause(); {
	case w.Outcome() == operation.Expired:
		return expired(r.timeout)
	case w.Outcome() == operation.Closed:
		err = purgatory.ErrClosed
	case cause != nil:
		return cause
	}
	return fmt.Errorf("signals: AwaitRead in %q: %w", r.p.Name(), err)
}
