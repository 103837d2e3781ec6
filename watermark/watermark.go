package watermark

import (
	"context"
	"fmt"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Watermark is a position that only rises, and that goroutines wait for. It is made by [New] and
// is safe for concurrent use. It needs no Close: what is left of it is memory.
//
// No wake-up is lost:
//
//  1. Advance raises the position before it checks the key.
//  2. A goroutine enters a wait only after the purgatory has accepted it, and looks at the position
//     once more then. So it sees a position that was raised before that look. The check of one that
//     is raised later finds the wait.
//  3. A goroutine enters a wait under mu, and only if the wait does not end. A wait that ends
//     wakes all that have entered it.
//  4. The last goroutine that leaves a wait takes it out of waits under the same mu, and cancels
//     it after that. So no goroutine is in it then.
type Watermark[K comparable] struct {
	p   *purgatory.DelayedOperationPurgatory[K]
	key K
	at  sched.Int64

	mu struct { // taken with no other lock of the library held; no other code runs under it
		sched.Mutex
		waits map[int64]*wait[K] // by position; one that is ending may still be there
	}
}

// wait is the operation that the goroutines which wait for one position share.
type wait[K comparable] struct {
	operation.DelayedOperation
	w        *Watermark[K]
	position int64
	over     chan struct{} // closed when the wait has ended
	entered  int           // goroutines that have not left; guarded by mu
}

func (s *wait[K]) TryComplete() bool { return s.w.at.Load() >= s.position }
func (s *wait[K]) OnExpiration()     {}

func (s *wait[K]) OnComplete() {
	s.w.mu.Lock()
	s.forgetLocked()
	s.w.mu.Unlock()
	close(s.over)
}

// New returns a watermark that stands at a position. Waits are registered in p under key and
// their positions. Other operations may wait under key. Give each watermark a key of its own:
// otherwise each tries the waits of the others in vain. A key that is not equal to itself, as NaN,
// is no key for a watermark: Advance does not find those that wait under it.
func New[K comparable](p *purgatory.DelayedOperationPurgatory[K], key K, at int64) *Watermark[K] {
	w := &Watermark[K]{p: p, key: key}
	w.at.Store(at)
	return w
}

// Position returns how far w has come.
func (w *Watermark[K]) Position() int64 { return w.at.Load() }

// Advance raises w to a position and wakes the goroutines that wait for it or for a lower one.
// It does nothing if w has come as far already.
//
// Advance is CheckAndCompleteUpTo of the purgatory. It does not block. You may hold a lock when you
// call it, unless other operations wait under the key, because Advance calls their TryComplete and
// their callbacks, or a function of WithLogger or WithPanicHandler takes that lock.
func (w *Watermark[K]) Advance(to int64) {
	for at := w.at.Load(); to > at; at = w.at.Load() {
		if w.at.CompareAndSwap(at, to) {
			w.p.CheckAndCompleteUpTo(w.key, to)
		}
	}
}

// Await blocks the caller until w has come as far as position, ctx ends, or a method of the
// purgatory ends the wait. It looks at w first and last: if w has come as far, Await returns nil, even
// if ctx has ended or the purgatory has closed. It allocates nothing if w has come as far at first.
// Do not call it from a callback.
//
// Errors: the cause of ctx; the cause that was given to CancelForKey; purgatory.ErrCancelled if
// that is nil, or if CompleteForKey ended the wait; purgatory.ErrClosed, and
// purgatory.ErrFull. Compare with errors.Is.
func (w *Watermark[K]) Await(ctx context.Context, position int64) error {
	if w.at.Load() >= position {
		return nil
	}
	done := ctx.Done() // before the goroutine enters: the method of a strange context may panic
	s, err := w.enter(position)
	switch {
	case err != nil:
	case w.at.Load() >= position: // with WithFirstInFirstOut the purgatory may have tried only those before s
		w.leave(s)
	case sched.Either(s.over, done):
		err = s.err()
	default:
		w.leave(s)
		err = context.Cause(ctx)
	}
	if w.at.Load() >= position {
		return nil
	}
	return err
}

// enter returns a wait for position, which the caller has entered.
func (w *Watermark[K]) enter(position int64) (s *wait[K], err error) {
	if s = w.enterOr(position, nil); s != nil {
		return s, nil
	}
	own := &wait[K]{w: w, position: position, over: make(chan struct{})}
	// Without mu: with WithFirstInFirstOut a registration calls methods of other operations. If one of
	// them calls runtime.Goexit, s is nil here.
	defer func() {
		if s != own { // or another goroutine was faster
			w.p.Cancel(own, nil)
		}
	}()
	if _, err = w.p.TryCompleteElseWatchAt(own, purgatory.NoTimeout, purgatory.KeyPosition[K]{Key: w.key, Position: position}); err != nil {
		return nil, err
	}
	return w.enterOr(position, own), nil
}

// enterOr enters the wait for position. If there is none, or if it ends, perhaps with an
// error that is not for the caller, that is own; nil if own is nil.
func (w *Watermark[K]) enterOr(position int64, own *wait[K]) *wait[K] {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.mu.waits[position]
	if s == nil || machine.Of(s).Ending() {
		if s = own; own == nil {
			return nil
		}
		if own.Outcome() == operation.Pending { // its OnComplete is to come, and forgets it
			if w.mu.waits == nil {
				w.mu.waits = make(map[int64]*wait[K])
			}
			w.mu.waits[position] = own
		}
	}
	s.entered++
	return s
}

// leave leaves s, which may have ended.
func (w *Watermark[K]) leave(s *wait[K]) {
	w.mu.Lock()
	s.entered--
	last := s.entered == 0
	if last {
		s.forgetLocked()
	}
	w.mu.Unlock()
	if last {
		w.p.Cancel(s, nil)
	}
}

func (s *wait[K]) forgetLocked() {
	if waits := s.w.mu.waits; waits[s.position] == s {
		delete(waits, s.position)
	}
}

// err returns how s, which has ended, has ended.
func (s *wait[K]) err() error {
	err := purgatory.ErrCancelled
	switch s.Outcome() {
	case operation.Satisfied:
		return nil
	case operation.Closed:
		err = purgatory.ErrClosed
	default:
		if cause := s.Cause(); cause != nil {
			return cause
		}
	}
	return fmt.Errorf("waiting for position %d in purgatory %q: %w", s.position, s.w.p.Name(), err)
}
