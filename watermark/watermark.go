package watermark

import (
	"context"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/purgatory"
)

// Watermark is a position that only rises, and that goroutines wait for. It is made by [New] and
// is safe for concurrent use. It needs no Close: what is left of it is memory.
//
// No wake-up is lost:
//
//  1. Advance raises the position before it checks the key.
//  2. A goroutine waits in a wait that the purgatory has accepted, and whose condition is the
//     position; the purgatory loses no wake-up.
//  3. A wait is stopped by the last of its goroutines, which has taken it out of waits under
//     mu. So no other goroutine enters it after that.
type Watermark[K comparable] struct {
	p   *purgatory.DelayedOperationPurgatory[K]
	key K
	at  sched.Int64

	mu struct { // taken with no other lock held
		sched.Mutex
		waits map[int64]*wait[K] // by position; one that has ended may still be there
	}
}

// wait is what those who wait for one position share.
type wait[K comparable] struct {
	*purgatory.Wait[K]
	entered   int        // goroutines that have not left; guarded by mu
	forgotten sched.Bool // it has ended, and one of them has taken it out of waits
}

// New returns a watermark that stands at a position. Waits are registered in p under key and
// their positions. Other operations may wait under key; give each watermark a key of its own.
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
// Advance is CheckAndCompleteUpTo of the purgatory. It does not block and calls no code of the
// caller's, unless other operations wait under the key: their TryComplete, and their callbacks.
func (w *Watermark[K]) Advance(to int64) {
	for at := w.at.Load(); to > at; at = w.at.Load() {
		if w.at.CompareAndSwap(at, to) {
			w.p.CheckAndCompleteUpTo(w.key, to)
			return
		}
	}
}

// Await blocks the caller until w has come as far as position, ctx ends, or a method of the
// purgatory ends the wait. If w has come as far, Await returns nil, even if ctx has ended or the
// purgatory has closed; it allocates nothing then. Do not call it from a callback.
//
// Errors: the cause of ctx; the cause that was given to CancelForKey; purgatory.ErrCancelled if
// that is nil, or if CompleteForKey ended the wait; purgatory.ErrClosed, and
// purgatory.ErrFull. Compare with errors.Is.
func (w *Watermark[K]) Await(ctx context.Context, position int64) error {
	if w.at.Load() >= position {
		return nil
	}
	s, err := w.enter(position)
	if err != nil {
		return err
	}
	if !sched.Either(s.Done(), ctx.Done()) {
		w.leave(position, s)
		return context.Cause(ctx)
	}
	if !s.forgotten.Load() && !s.forgotten.Swap(true) {
		w.forget(position, s)
	}
	return s.Err()
}

// enter returns a wait for position, which the caller has entered.
func (w *Watermark[K]) enter(position int64) (*wait[K], error) {
	if s := w.enterOr(position, nil); s != nil {
		return s, nil
	}
	reached := func() bool { return w.at.Load() >= position }
	// Without mu: the purgatory may call the program's logger.
	started, err := w.p.StartWaitAt(purgatory.NoTimeout, reached, purgatory.KeyPosition[K]{Key: w.key, Position: position})
	if err != nil {
		return nil, err
	}
	s := w.enterOr(position, &wait[K]{Wait: started})
	if s.Wait != started { // another goroutine was faster
		started.Stop()
	}
	return s, nil
}

// enterOr enters the wait for position. If there is none, or if it has ended, perhaps with an
// error that is not for the caller, that is own; nil if own is nil.
func (w *Watermark[K]) enterOr(position int64, own *wait[K]) *wait[K] {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.mu.waits[position]
	if s == nil || s.ended() {
		if own == nil {
			return nil
		}
		if w.mu.waits == nil {
			w.mu.waits = make(map[int64]*wait[K])
		}
		s = own
		w.mu.waits[position] = s
	}
	s.entered++
	return s
}

// leave leaves s, which may have ended.
func (w *Watermark[K]) leave(position int64, s *wait[K]) {
	w.mu.Lock()
	s.entered--
	last := s.entered == 0
	if last {
		w.forgetLocked(position, s)
	}
	w.mu.Unlock()
	if last {
		s.Stop()
	}
}

func (w *Watermark[K]) forget(position int64, s *wait[K]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetLocked(position, s)
}

func (w *Watermark[K]) forgetLocked(position int64, s *wait[K]) {
	if w.mu.waits[position] == s {
		delete(w.mu.waits, position)
	}
}

func (s *wait[K]) ended() bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}
