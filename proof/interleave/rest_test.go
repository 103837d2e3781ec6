//go:build interleave

package interleave

import (
	"errors"
	"reflect"

	"github.com/delayedop/purgatory/operation"
)

// atRest checks what must hold when all goroutines have ended.
func (e *env) atRest() error {
	e.rest()
	return errors.Join(e.failures...)
}

func (e *env) rest() {
	e.p.AdvanceClock(0) // runs the purge
	e.room()
	ended, did := 0, 0
	for _, n := range e.ended {
		did += n
	}
	var pending, watched int64
	for _, o := range []*op{e.op, e.other} {
		ended += o.completed
		if o.accepted && o.completed == 0 {
			pending++
			watched += int64(len(o.keys))
			o.stillPending()
		}
	}
	if did > ended {
		e.fail("ended %d, and the verbs say %v", ended, e.ended)
	}
	if s := e.p.Stats(); s.Pending != pending || s.Watched != watched {
		e.fail("%d pending, %d watched; have to be %d and %d", s.Pending, s.Watched, pending, watched)
	} else if n := int64(e.ended["cancel"]); s.GaveUp != n {
		e.fail("%d calls of Cancel have ended something, %d have given up", n, s.GaveUp)
	}
	if err := e.p.Close(); err != nil { // ends the pending operations
		e.fail("close: %v", err)
	}
	e.op.hasEnded()
	e.other.hasEnded()
	_ = e.another.Close()
	e.empty()
}

// stillPending checks that an operation that is pending at rest has no reason to have ended.
func (o *op) stillPending() {
	e := o.e
	if o.satisfied() {
		e.fail("lost wake-up: satisfied, and still pending")
	}
	if o.mustEnd {
		e.fail("lost wish: forced or cancelled, and still pending")
	}
	if e.closed {
		e.fail("closed, and still pending")
	}
	if e.clock.Now() >= o.deadline {
		e.fail("timed out, and still pending")
	}
}

// hasEnded checks an operation after Close: if it was accepted, it has ended once.
func (o *op) hasEnded() {
	e := o.e
	if !o.accepted {
		if o.completed > 0 || o.Outcome() != operation.Pending {
			e.fail("not accepted, yet it has ended as %v", o.outcome)
		}
		if o.refused > 0 && !e.closed {
			e.fail("refused by an open purgatory")
		}
		return
	}
	if o.completed != 1 || o.outcome != o.Outcome() || o.outcome == operation.Pending {
		e.fail("%d OnComplete, outcome %v, later %v", o.completed, o.outcome, o.Outcome())
	}
	if (o.expired == 1) != (o.outcome == operation.Expired) || o.expired > 1 {
		e.fail("%d OnExpiration, outcome %v", o.expired, o.outcome)
	}
	if o.outcome == operation.Expired && o.completedAt < max(timeout, o.promised) {
		e.fail("expired at %v, promised %v", o.completedAt, max(timeout, o.promised))
	}
	if o.outcome == operation.Satisfied && !o.satisfied() {
		e.fail("satisfied, but it is not")
	}
}

// empty checks that the purgatory and the clocks refer to no operation.
func (e *env) empty() {
	s := e.p.Stats()
	causes := reflect.ValueOf(e.p).Elem().FieldByName("causes").FieldByName("all").Len()
	inside, timed := watchersOf(e.p).Totals(0).Inside, e.clock.Pending()
	if s.Pending != 0 || s.Watched != 0 || s.Keys != 0 || s.Stale != 0 || timed != 0 || causes != 0 || inside != 0 {
		e.fail("left behind: %d pending, %d watched, %d keys, %d stale, %d timed, %d causes, %d inside",
			s.Pending, s.Watched, s.Keys, s.Stale, timed, causes, inside)
	}
	if s.Accepted != s.Satisfied+s.Forced+s.Expired+s.Cancelled+s.Closed {
		e.fail("counters do not add up: %+v", s)
	}
}
