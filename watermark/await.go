package watermark

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// Await blocks the caller until w has come as far as position, timeout has passed, ctx ends, w is closed, or a method of
// the purgatory ends the wait. It looks at w first and last: a position takes nothing, so if w has come as
// far, Await returns nil, even if ctx has ended or timeout has passed, before or during the call, or the purgatory has
// closed. It allocates nothing if w has come as far at first. Do not call it from a callback.
//
// The timeout is measured on the purgatory's clock; purgatory.NoTimeout never passes. With a timeout of zero or less
// Await does not block.
//
// Errors: purgatory.ErrExpired after timeout; the cause of ctx; the cause that was given to Close, or to CancelForKey;
// purgatory.ErrCancelled if the latter is nil; purgatory.ErrClosed; and purgatory.ErrFull, if the purgatory or its timer is.
// Compare with errors.Is. Await panics if ctx is nil, or if it has to wait with a timeout in a bubble of testing/synctest,
// and the purgatory was made outside.
func (w *Watermark[K]) Await(ctx context.Context, timeout time.Duration, position int64) error {
	if ctx == nil {
		panic("watermark: Await was called with a nil context: use context.Background()")
	}
	if w.closed.Load() {
		return w.cause
	}
	if w.at.Load() >= position {
		return nil
	}
	done := ctx.Done() // before the goroutine enters: a context is the caller's code, and may panic
	var how exit
	var err error
	switch {
	case ctx.Err() != nil:
		how = w.turn(position, givesUp)
	case timeout <= 0:
		how = w.turn(position, timesOut)
	default:
		how, err = w.await(done, timeout, position)
	}
	switch how {
	case givesUp:
		return context.Cause(ctx)
	case timesOut:
		return w.fails(position, fmt.Errorf("%w after %v", purgatory.ErrExpired, timeout))
	}
	return err
}

// turn returns how a goroutine leaves that does not wait.
func (w *Watermark[K]) turn(position int64, how exit) exit {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leavesLocked(position, how)
}

// await waits. The error counts unless the caller gives up or times out.
func (w *Watermark[K]) await(done <-chan struct{}, timeout time.Duration, position int64) (how exit, err error) {
	who := arrives()
	if timeout != purgatory.NoTimeout {
		who.m = w.timed(timeout, who.inBubble)
	}
	for again := false; ; again = true {
		s, m, starts, err := w.enter(who, position)
		if s == nil {
			who.m.release()
			return stays, err
		}
		if starts {
			if err = s.start(); err != nil {
				m.release()
				return stays, err
			}
		}
		how, woken, idle, err := s.sit(m, done)
		// A start that was refused may have been before this call, when the purgatory was full. The next
		// that this goroutine finds has begun during the call, and speaks for it, too.
		if how == stays && !starts && !again && s.refused() {
			if !m.timeIsUp {
				who.m = m
				continue
			}
			how = w.turn(position, timesOut)
		} else if how == stays {
			err = s.err()
		}
		if idle {
			m.release()
			if woken && s.again {
				crowds.Put(s.crowd)
			}
		}
		return how, err
	}
}

// sit blocks until s has ended, and then returns stays, or until m has left it. With isRefused there is an error. woken
// says that m was told of the end by the channel, idle that nothing refers to m any more.
func (s *shared[K]) sit(m *member, done <-chan struct{}) (how exit, woken, idle bool, err error) {
	w := s.w
	if m.alarm == nil {
		if woken = sched.Either(s.over, done); !woken {
			how = w.leave(s, m, givesUp)
		}
		return how, woken, true, nil
	}
	if err = s.set(m); err != nil {
		if how = w.leave(s, m, isRefused); how != isRefused {
			return how, false, true, nil
		}
		kind := purgatory.ErrFull
		if errors.Is(err, timer.ErrStopped) {
			kind = purgatory.ErrClosed
		}
		return how, false, true, w.fails(s.position, fmt.Errorf("%w: %w", kind, err))
	}
	a := m.alarm
	which := first(s.over, done, a.rang)
	m.timeIsUp = which == 2
	if idle = m.timeIsUp || a.timer.Entries().Cancel(&a.entry); !idle {
		m.timeIsUp = true // the alarm is about to ring
	}
	if which > 0 || !idle {
		how = w.leave(s, m, givesUp) // or what the alarm has made of it
	}
	return how, which == 0, idle, nil
}

// fails returns an error about a wait for position.
func (w *Watermark[K]) fails(position int64, err error) error {
	return fmt.Errorf("waiting for position %d in purgatory %q: %w", position, w.p.Name(), err)
}
