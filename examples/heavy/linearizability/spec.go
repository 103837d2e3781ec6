// Package linearizability checks recorded histories of concurrent calls against a
// sequential model of one operation's life, with Porcupine: is there an order of the
// calls, within the time that each took, in which each answers what it answered?
package linearizability

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/delayedop/purgatory/operation"
)

// verb is what was called.
type verb string

// The verbs. Each is about one operation.
const (
	set      verb = "set"      // its condition becomes true
	register verb = "register" // yes: it ended by this very call
	check    verb = "check"    // yes: it ended by this very call
	force    verb = "force"
	cancel   verb = "cancel"
	extend   verb = "extend"
	expire   verb = "expire" // the clock goes on by a timeout
	settle   verb = "settle" // the clock does what is due, and does not go on
	look     verb = "look"   // what Outcome says
	rest     verb = "rest"   // the same, when nothing is under way any more
)

// call is the input of a step, answer its output.
type call struct {
	op   int
	verb verb
}

type answer struct {
	yes     bool
	outcome operation.Outcome

	// from and to are the clock before and after the call, in timeouts, rounded up: a
	// deadline is counted from a reading in between.
	from, to int8
}

// state is an operation as one who sees only calls and answers can know it.
//
// The model is nondeterministic where the purgatory is: a verb that meets a goroutine
// inside TryComplete says no and leaves a wish, and a check a mark, for that goroutine
// to see. Whether there was one the calls do not tell. So each no may be taken as such;
// but a wish or a mark has to be seen to: at rest there is none.
type state struct {
	accepted bool
	outcome  operation.Outcome
	met      bool
	marked   bool // a check has left its look to somebody, since met
	wish     operation.Outcome

	clock, deadline int8 // in timeouts
}

// model is of all operations of a history, apart from each other.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			var parts [][]porcupine.Operation
			for _, o := range history {
				op := o.Input.(call).op
				for op >= len(parts) {
					parts = append(parts, nil)
				}
				parts[op] = append(parts[op], o)
			}
			return parts
		},
		Init: func() []any { return []any{state{}} },
		Step: func(s, input, output any) (next []any) {
			for _, n := range s.(state).step(input.(call).verb, output.(answer)) {
				next = append(next, n)
			}
			return next
		},
		DescribeOperation: func(input, output any) string {
			c, a := input.(call), output.(answer)
			return fmt.Sprintf("%s -> %v %v", c.verb, a.yes, a.outcome)
		},
	}
	return m.ToModel()
}

// step returns the states that a call with this answer can lead to; none if it cannot
// have answered so. If the timeout has passed while the registration held the operation, a
// worker may have ended it before the call.
func (s state) step(v verb, a answer) []state {
	next := s.call(v, a)
	if s.accepted && s.outcome == operation.Pending && s.wish == operation.Expired {
		next = append(next, s.as(operation.Expired).call(v, a)...)
	}
	return next
}

func (s state) call(v verb, a answer) []state {
	pending := s.accepted && s.outcome == operation.Pending
	switch v {
	case set:
		s.met = true
		return []state{s}
	case look:
		return when(a.outcome == s.outcome, s)
	case rest:
		return when(a.outcome == s.outcome && s.wish == operation.Pending && !s.marked, s)
	case register:
		return s.register(a)
	case check:
		return s.check(pending, a.yes)
	case force:
		return s.end(pending, operation.Forced, a.yes)
	case cancel:
		return s.end(pending, operation.Cancelled, a.yes)
	case extend:
		return s.extend(pending, a)
	case expire:
		s.clock++
		return s.expire(pending)
	case settle:
		return s.expire(pending)
	}
	return nil
}

func when(ok bool, s ...state) []state {
	if ok {
		return s
	}
	return nil
}

func (s state) as(o operation.Outcome) state {
	s.accepted, s.outcome, s.wish, s.marked = true, o, operation.Pending, false
	return s
}

// timed returns s with each deadline that it can have.
func (s state) timed(a answer) (next []state) {
	for now := a.from; now <= a.to; now++ {
		s.deadline = now + 1
		next = append(next, s)
	}
	return next
}

func (s state) register(a answer) (next []state) {
	if s.accepted {
		return nil // it is submitted once
	}
	if !a.yes {
		waits := s
		waits.accepted, waits.wish = true, operation.Pending
		return when(!s.met, waits.timed(a)...) // it cannot wait for what is met
	}
	if s.met {
		next = append(next, s.as(operation.Satisfied))
	}
	if s.wish != operation.Pending { // left in the middle of this call
		next = append(next, s.as(s.wish))
	}
	return next
}

func (s state) check(pending, yes bool) (next []state) {
	if yes {
		if pending && s.met {
			next = append(next, s.as(operation.Satisfied))
		}
		if pending && s.wish != operation.Pending {
			next = append(next, s.as(s.wish))
		}
		return next
	}
	if pending && s.met {
		s.marked = true
	}
	return []state{s}
}

func (s state) end(pending bool, o operation.Outcome, yes bool) (next []state) {
	if yes {
		return when(pending, s.as(o))
	}
	if s.outcome == operation.Pending && s.wish == operation.Pending {
		wished := s
		wished.wish = o
		next = append(next, wished)
	}
	if !pending || s.wish != operation.Pending {
		next = append(next, s) // nothing there, or an earlier wish
	}
	return next
}

func (s state) extend(pending bool, a answer) []state {
	if !a.yes { // it may be expiring at this moment, or timed only later
		return []state{s}
	}
	if s.outcome != operation.Pending {
		return nil
	}
	if s.wish == operation.Expired && pending {
		s.wish = operation.Pending // it was about to be timed anew
	}
	return s.timed(a)
}

func (s state) expire(pending bool) []state {
	if !pending || s.clock < s.deadline && s.wish != operation.Expired {
		return []state{s}
	}
	left := s
	if left.wish == operation.Pending {
		left.wish = operation.Expired
	}
	return []state{s.as(operation.Expired), left}
}
