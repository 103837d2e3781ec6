package programs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

var errCause = errors.New("the cause of a program")

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// drainTime is how long a Shutdown waits on a manual clock, whose time does not pass while it polls. It is time of
// the run, or of the system.
const drainTime = 5 * time.Millisecond

// do makes one step.
func (w *world) do(s step) {
	if s.key >= w.keys {
		s.key = 0
	}
	next := (s.key + 1) % w.keys
	key := w.ids[s.key]
	switch s.verb {
	case vRaise, vPut:
		w.change(s)
	case vCheck:
		w.reach(s.key)
		w.count(w.p.CheckAndComplete(key))
	case vCheckBoth:
		w.reach(s.key, next)
		w.count(w.p.CheckAndComplete(key, w.ids[next]))
	case vSignal:
		w.reach(s.key)
		w.p.Signal(key)
	case vSignalBoth:
		w.reach(s.key, next)
		w.p.Signal(key, w.ids[next])
	case vCheckUpTo:
		w.reachUpTo(s.key, s.n)
		w.count(w.p.CheckAndCompleteUpTo(key, int64(s.n)))
	case vSignalUpTo:
		w.reachUpTo(s.key, s.n)
		w.p.SignalUpTo(key, int64(s.n))
	case vCancelKey:
		w.cancelKey(s.key)
	case vInspect:
		w.inspect()
	case vKeys:
		w.iterate()
	case vAdvance:
		w.advance(time.Duration(s.n) * tick)
	case vClose:
		w.close()
		if err := w.p.Close(); err != nil {
			w.fault("close: %v", err)
		}
	case vShutdown:
		w.shutdown(ended)
	case vDrain:
		if w.manual == nil {
			w.shutdown(context.Background()) // which lets time pass while it polls
		} else {
			ctx, end := sched.WithTimeout(context.Background(), drainTime)
			defer end()
			w.shutdown(ctx)
		}
	case vPass:
		w.end(w.passBy())
	default:
		if s.op < len(w.waiters) {
			w.doTo(w.waiters[s.op], s)
		}
	}
}

// doTo makes a step that names an operation.
func (w *world) doTo(o *waiter, s step) {
	switch s.verb {
	case vRegister:
		if o.waits {
			w.await(o)
		} else {
			w.register(o, w.p)
		}
	case vAbroad:
		if w.abroad != nil && !o.waits {
			w.register(o, w.abroad)
		}
	case vStranger:
		w.stranger(o, s.n)
	case vLeave:
		w.leave(o)
	case vForce:
		w.must(o, false)
		if w.p.ForceComplete(o) {
			w.count(1)
			o.home()
			if o.Outcome() != operation.Forced {
				w.fault("o%d: forced, the outcome is %v", o.id, o.Outcome())
			}
		}
	case vCancel:
		w.must(o, true)
		if w.p.Cancel(o, errCause) {
			w.count(1)
			o.home()
			if o.Outcome() != operation.Cancelled {
				w.fault("o%d: cancelled, the outcome is %v", o.id, o.Outcome())
			}
		}
	case vExtend:
		w.extend(o, time.Duration(s.n)*tick)
	}
}

// change changes the state of a key.
func (w *world) change(s step) {
	sched.Yield()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	if s.verb == vPut {
		w.items[s.key]++
		w.put[s.key] = w.now
	} else if w.raised[s.key] == 0 {
		w.raised[s.key] = w.now
	}
}

// reach notes that a check or a signal of keys begins.
func (w *world) reach(keys ...int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	for _, k := range keys {
		w.checked[k] = w.now
	}
}

// reachUpTo notes that a check or a signal up to a position begins.
func (w *world) reachUpTo(key, position int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	for at := range position + 1 {
		w.reached[key][at] = w.now
	}
}

// must notes that o is forced or cancelled. That must not be lost once its registration has
// tried it.
func (w *world) must(o *waiter, cause bool) {
	sched.Yield()
	w.mu.Lock()
	defer w.mu.Unlock()
	tried := o.tries > 0 && !o.travels && w.maxPending == 0 && !w.none && w.perKey == 0 // what is full refuses after a try
	o.mustEnd = o.mustEnd || tried || o.accepted && !o.abroad
	o.cause = o.cause || cause
}

// home notes that a verb of the first purgatory says that it has changed o.
func (o *waiter) home() {
	o.w.mu.Lock()
	o.atHome = true
	o.w.mu.Unlock()
}

// cancelKey ends the operations of a key.
func (w *world) cancelKey(key int) {
	sched.Yield()
	w.mu.Lock()
	for _, o := range w.waiters {
		if slices.Contains(o.keys, key) {
			o.cause = true
			o.mustEnd = o.mustEnd || o.accepted && !o.abroad
		}
	}
	w.mu.Unlock()
	w.count(w.p.CancelForKey(w.ids[key], errCause))
}

func (w *world) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
}

// quietLocked checks what must hold when Shutdown returns, and does not say that some are unanswered.
func (w *world) quietLocked() {
	for _, o := range w.waiters {
		if !o.travels && (o.calling || o.trying && o.accepted && !o.waits) {
			o.fault("one of its methods runs when Shutdown returns")
		}
		if !o.travels && o.accepted && o.completed == 0 {
			o.fault("it is unanswered when Shutdown returns")
		}
	}
}

func (w *world) shutdown(ctx context.Context) {
	w.close()
	err := w.p.Shutdown(ctx)
	t, system := w.clock.(*timer.SystemTimer)
	busy := err == nil && system && w.system == nil && !t.Idle()
	w.mu.Lock()
	defer w.mu.Unlock()
	// A registration beside Shutdown that is refused may start a worker, which finds nothing and may
	// end after the registration has returned.
	if busy && !slices.ContainsFunc(w.waiters, func(o *waiter) bool { return len(o.begun) > 0 && !o.accepted }) {
		w.faultLocked("workers of the purgatory's own timer run when Shutdown returns")
	}
	switch {
	case err != nil && (ctx.Err() == nil || !errors.Is(err, context.Cause(ctx))):
		w.faultLocked("shutdown: %v", err)
	case err != nil && strings.Contains(err.Error(), "unanswered"):
		if exact {
			w.faultLocked("shutdown: %v, and no callback blocks", err)
		}
	default:
		w.down = true
		w.quietLocked()
	}
}
