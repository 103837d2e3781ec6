//go:build interleave

package interleave

import (
	"context"
	"errors"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// verb is what one goroutine of a scenario does.
type verb struct {
	name string
	fact int // the fact that it sets, -1: none
	do   func(*env)
}

// register submits o to p and records the result.
func (e *env) register(o *op) (err error) {
	e.calls++
	e.underWay++
	defer func() { e.underWay-- }()
	completed, err := e.p.TryCompleteElseWatch(o, timeout, o.keys...)
	o.deadline = max(o.deadline, e.clock.Now()+timeout)
	switch {
	case err == nil && o.accepted:
		e.fail("accepted twice")
	case err == nil:
		o.accepted = true
	case errors.Is(err, purgatory.ErrClosed) || errors.Is(err, purgatory.ErrUsed):
		o.refused++
	case errors.Is(err, purgatory.ErrFull) && (len(e.full) > 0 || e.other.accepted):
	default:
		e.fail("register: %v", err)
	}
	if completed {
		e.ended["register"]++
	}
	return err
}

// again registers the operation. If p refuses it because p is full, or its timer is, again submits it once more: an operation is
// used once.
func (e *env) again() {
	if err := e.register(e.op); !errors.Is(err, purgatory.ErrFull) {
		return
	}
	if _, err := e.p.TryCompleteElseWatch(e.op, timeout, e.op.keys...); !errors.Is(err, purgatory.ErrUsed) && !errors.Is(err, purgatory.ErrClosed) {
		e.fail("submitted again: %v", err)
	}
}

// tried reports whether the registration of the operation has begun. From then on, a force or
// a cancel must not be lost.
func (e *env) tried() bool { return e.op.tries > 0 }

func (e *env) count(name string, n int) { e.ended[name] += n }

// check returns a verb that sets a fact and checks its key.
func check(i int) func(*env) {
	return func(e *env) {
		sched.Yield()
		e.facts[i] = true
		e.count("check", e.p.CheckAndComplete(e.keys[i]))
	}
}

// signal returns a verb that sets a fact and signals its key.
func signal(i int) func(*env) {
	return func(e *env) {
		sched.Yield()
		e.facts[i] = true
		e.p.Signal(e.keys[i])
	}
}

// signalBoth changes the state of both keys, and signals them by one call.
func signalBoth(e *env) {
	sched.Yield()
	e.facts[0] = true
	e.facts[1] = true
	e.p.Signal(e.keys...)
}

func force(e *env) {
	sched.Yield()
	e.op.mustEnd = e.op.mustEnd || e.tried()
	if e.p.ForceComplete(e.op) {
		e.count("force", 1)
		if e.op.outcome != operation.Forced {
			e.fail("forced, the outcome is %v", e.op.outcome)
		}
	}
}

func cancel(e *env) {
	sched.Yield()
	e.op.mustEnd = e.op.mustEnd || e.tried()
	if e.p.Cancel(e.op, context.Canceled) { // as of a client that gives up
		e.count("cancel", 1)
	}
}

func cancelForKey(e *env) {
	e.count("cancel for key", e.p.CancelForKey(e.keys[len(e.keys)-1], errCause))
}

func expire(e *env) { e.p.AdvanceClock(timeout) }

func extend(e *env) {
	promised := e.clock.Now() + longer
	if e.p.Extend(e.op, longer) {
		e.op.promised = max(e.op.promised, promised)
		e.op.deadline = max(e.op.deadline, e.clock.Now()+longer)
	}
}

// foreign calls the verbs of another with the operation of p. They must have no effect.
func foreign(e *env) {
	verbs := []func() bool{
		func() bool { return e.another.ForceComplete(e.op) },
		func() bool { return e.another.Cancel(e.op, errForeign) },
		func() bool { return e.another.Extend(e.op, 0) },
		func() bool { return e.another.CheckAndComplete("key") > 0 },
		func() bool { return e.another.CancelForKey("key", errForeign) > 0 },
	}
	for i, verb := range verbs {
		if verb() {
			e.fail("another purgatory's verb %d did something to an operation that is not its own", i)
		}
	}
}

var errForeign = errors.New("foreign cause")

// shutdown is Shutdown with a context that has ended.
func shutdown(e *env) {
	ctx, end := context.WithCancelCause(context.Background())
	end(errEnded)
	switch err := e.p.Shutdown(ctx); {
	case err == nil || err == errEnded: //nolint:errorlint // the very error: nothing is left unanswered
		e.over = true
	case !errors.Is(err, errEnded):
		e.fail("shutdown: %v", err)
	}
	e.hasShutDown()
}

var errEnded = errors.New("the context has ended")

// drain is Shutdown with a context that does not end. Another verb has to end what waits.
func drain(e *env) {
	if err := e.p.Shutdown(context.Background()); err != nil {
		e.fail("drain: %v", err)
	}
	e.over = true
	e.hasShutDown()
}

// hasShutDown checks what must hold when Shutdown returns.
func (e *env) hasShutDown() {
	e.closed = true
	if e.over {
		e.atTheEnd()
	}
	for _, o := range []*op{e.op, e.other} {
		if o.accepted && o.completed == 0 && machine.Of(o).Acquire() {
			e.fail("Shutdown has returned, an operation is pending, and no goroutine holds it")
		}
	}
}

// atTheEnd checks what must hold when Shutdown has answered everybody: nothing runs, and nothing is queued. A registration that is under
// way is refused, but may have started a worker.
func (e *env) atTheEnd() {
	for _, o := range []*op{e.op, e.other} {
		if o.accepted && (o.completed != 1 || o.calling || o.trying) {
			e.fail("when Shutdown returns %d OnComplete have begun, a callback runs: %v, a try: %v", o.completed, o.calling, o.trying)
		}
	}
	calls, quiet := e.calls, e.underWay == 0
	w := watchersOf(e.p)
	handed, idle := queuedIn(e.p) // others go on meanwhile
	t := w.Totals(0)
	if signalled := w.Signalled(); quiet && e.calls == calls && (t.Unanswered > 0 || t.Inside+handed > 0 || signalled || !idle) {
		e.fail("when Shutdown returns %d are unanswered, %d run, %d callbacks are queued, signals: %v, no worker: %v", t.Unanswered, t.Inside, handed, signalled, idle)
	}
}

// nested registers an operation; tries of both operations check the first key.
func nested(e *env) {
	e.op.nests, e.other.nests = 2, 2
	_ = e.register(e.op)
}

// restless registers an operation that is asked to try again more often than a holder does.
func restless(e *env) {
	e.op.marks = 12
	_ = e.register(e.op)
}

// passing registers an operation and ends it.
func passing(e *env) {
	_ = e.register(e.op)
	force(e)
}

// quiet asks for what is unanswered while the other operation waits, which no verb ends.
func quiet(e *env) {
	if watchersOf(e.p).Totals(0).Unanswered == 0 {
		e.fail("quiet, while an operation waits")
	}
}

func closeAll(e *env) {
	if err := e.p.Close(); err != nil {
		e.fail("close: %v", err)
	}
	e.closed = true
}

// purge runs the purge of the reaper.
func purge(e *env) { e.p.AdvanceClock(0) }

var (
	vRegister  = verb{"register", -1, func(e *env) { _ = e.register(e.op) }}
	vCheck     = verb{"check", 0, check(0)}
	vSignal    = verb{"signal", 0, signal(0)}
	vForce     = verb{"force", -1, force}
	vCancel    = verb{"cancel", -1, cancel}
	vForKey    = verb{"cancelkey", -1, cancelForKey}
	vExpire    = verb{"expire", -1, expire}
	vExtend    = verb{"extend", -1, extend}
	vClose     = verb{"close", -1, closeAll}
	vPurge     = verb{"purge", -1, purge}
	vObserve   = verb{"observe", -1, observe}
	vCheck2    = verb{"check2", 1, check(1)}
	vSignal2   = verb{"signal2", 1, signal(1)}
	vBoth      = verb{"both", 1, signalBoth}
	vSpurious  = verb{"spurious", -1, func(e *env) { e.p.Signal(e.keys[0]) }}
	vSpurious2 = verb{"spurious2", -1, func(e *env) { e.p.Signal(e.keys...) }}
	vOther     = verb{"other", -1, func(e *env) { _ = e.register(e.other) }}
	vForeign   = verb{"foreign", -1, foreign}
	vShutdown  = verb{"shutdown", -1, shutdown}
	vDrain     = verb{"drain", -1, drain}
	vNested    = verb{"nested", -1, nested}
	vFull      = verb{"full", -1, (*env).again} // p's timer is full
	vRestless  = verb{"restless", -1, restless}
	vCrowded   = verb{"crowded", -1, (*env).again} // p is full
	vPassing   = verb{"passing", -1, passing}
	vQuiet     = verb{"quiet", -1, quiet}
	vRoom      = verb{"room", -1, (*env).room}
)
