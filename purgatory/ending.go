package purgatory

import (
	"runtime/trace"
	"unsafe"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// batchSize is how many operations end together: see docs/decisions.md#batches-of-128.
const batchSize = 128

// ending has operations on their way from held to answered. Every way in which an operation
// can end goes through its steps: a batch in an ending, one operation in endOne, and one whose first try says
// yes, which is in no list and no timer, from 3 on, in pass. The caller holds the operations, and adds each with
// its outcome.
//
//  1. The operations leave their lists.
//  2. They leave the timer. A worker of the timer that has an entry already finds that the
//     operation is held, or that it has ended.
//  3. Their outcomes become final. So who sees one finds the operation's places free, in
//     WithMaxPending and in the timer's.
//  4. If the stack is deep, or workers are to run the callbacks, the crew takes the operations, and
//     a worker goes on with 5 for each.
//  5. The callbacks run.
//
// An ending belongs to one goroutine at a time. If a callback calls runtime.Goexit, another
// goroutine goes on where the ending stands, and nobody waits for it.
type ending[K comparable] struct {
	p     *DelayedOperationPurgatory[K]
	shard *watchers.Shard[K] // of the key that the walk goes over
	cause *error             // of those that are cancelled; nil: the one that was set with the wish

	ops      []*machine.Machine // nil when its callbacks have run; the capacity is fixed
	outcomes []machine.Outcome
	keys     []K // the first key of each, from step 1 until its callbacks have run; for records

	later bool // the crew is to answer them
	at    int  // ops[at] is the operation whose callbacks run
	begun int  // how many of its callbacks have begun
}

// add adds m, which the caller holds.
func (e *ending[K]) add(m *machine.Machine, o machine.Outcome) {
	e.ops, e.outcomes = append(e.ops, m), append(e.outcomes, o)
}

// end is steps 1 to 3.
func (e *ending[K]) end() {
	if len(e.ops) == 0 {
		return
	}
	e.keys = e.keys[:len(e.ops)]
	e.shard.Leave(e.ops, e.outcomes, e.keys)
	e.p.timer.CancelAll(entriesOf(e.ops))
	e.p.freePlaces(len(e.ops))
	e.p.wishes.Settle(e.ops, e.outcomes, e.cause)
}

// answer is steps 4 and 5. The caller is inside the gate of e's shard, which answer leaves. Why not a pool: see
// docs/decisions.md#callbacks-run-on-the-goroutine-that-ends.
func (e *ending[K]) answer() {
	if trace.IsEnabled() {
		defer e.p.region(regionCallbacks)()
	}
	var none K
	answered := 0
	for ; e.at < len(e.ops); e.at++ {
		m, key := e.ops[e.at], e.keys[e.at]
		if !e.later || isWait(m) {
			e.p.callbacks(m, e.outcomes[e.at], key, &e.begun)
			answered++
		} else {
			e.p.crew.hand(handed[K]{m, e.shard, key})
		}
		// A later callback may block: it must not keep this operation in memory.
		e.ops[e.at], e.keys[e.at], e.begun = nil, none, 0
	}
	if !e.later {
		answered = len(e.ops) // also before a runtime.Goexit
	}
	e.ops, e.outcomes, e.keys, e.at = e.ops[:0], e.outcomes[:0], e.keys[:0], 0
	// Shutdown compares the number of those that are answered with that of those that were accepted.
	e.shard.Gate().Exit(answered)
}

// callbacks runs those of the callbacks of m, which has ended with o, that have not begun yet: begun is how
// many have. A panic goes to the caller, whose deferred function recovers it.
func (p *DelayedOperationPurgatory[K]) callbacks(m *machine.Machine, o machine.Outcome, key K, begun *int) {
	op := m.Operation()
	if *begun == 0 {
		if *begun = 1; p.observed == nil {
			op.OnComplete()
		} else {
			p.observed.Run(m, callbackNames[1], key, op.OnComplete)
		}
	}
	if *begun == 1 && o == machine.Expired {
		if *begun = 2; p.observed == nil {
			op.OnExpiration()
		} else {
			p.observed.Run(m, callbackNames[2], key, op.OnExpiration)
		}
	}
}

// callbackNames are the names of the callbacks, in the order in which they begin.
var callbackNames = [...]string{1: "OnComplete", 2: "OnExpiration"}

// endHeld is endOne for an operation that expires: a worker of the timer calls it.
func (p *DelayedOperationPurgatory[K]) endHeld(s *watchers.Shard[K], m *machine.Machine, o machine.Outcome, cause *error) {
	if h := p.cfg.hook; h != nil && o == machine.Expired && p.lastTry(h, m) {
		o = machine.Satisfied
	}
	p.endOne(s, m, o, cause, false)
}

// endOne takes m, which the caller holds, through the steps of an ending. With later, as where the options
// say so, a worker runs its callbacks. s is the shard of its first key. Its arrays stay on the stack, as those of an
// ending could not: see docs/decisions.md#one-operation-has-an-ending-of-its-own.
func (p *DelayedOperationPurgatory[K]) endOne(s *watchers.Shard[K], m *machine.Machine, o machine.Outcome, cause *error, later bool) {
	ops, outcomes, keys := [1]*machine.Machine{m}, [1]machine.Outcome{o}, [1]K{}
	deep, _ := p.enter(s, unsafe.Pointer(m))
	s.Leave(ops[:], outcomes[:], keys[:])
	if o != machine.Expired { // whose entry a worker of the timer has taken out
		p.timer.Cancel(entryOf(m))
	}
	p.freePlaces(1)
	p.wishes.Settle(ops[:], outcomes[:], cause)
	p.answerOrHand(s, m, o, keys[0], later || deep)
}

// answerOrHand is steps 4 and 5 for one operation.
func (p *DelayedOperationPurgatory[K]) answerOrHand(s *watchers.Shard[K], m *machine.Machine, o machine.Outcome, key K, later bool) {
	if (later || p.cfg.spread) && !isWait(m) {
		p.crew.hand(handed[K]{m, s, key})
		s.Gate().Exit(0)
	} else {
		p.answerOne(s, m, o, key, 0)
	}
}

// answerOne runs the callbacks of one operation that have not begun yet, and leaves the gate of s.
func (p *DelayedOperationPurgatory[K]) answerOne(s *watchers.Shard[K], m *machine.Machine, o machine.Outcome, key K, begun int) {
	over := false
	defer func() {
		if over {
			return
		}
		begun := begun
		if v := recover(); v == nil { // a callback has called runtime.Goexit
			sched.Go(func() { p.answerOne(s, m, o, key, begun) })
		} else {
			defer p.answerOne(s, m, o, key, begun) // also if the handler of the panic calls runtime.Goexit
			p.records.Recovered(v, m, callbackNames[begun], key)()
		}
	}()
	p.callbacks(m, o, key, &begun)
	over = true
	s.Gate().Exit(1)
}

// isWait reports whether m is a wait of the library itself: its callbacks do not block, and need no worker.
func isWait(m *machine.Machine) bool {
	w, is := m.Operation().(machine.Waker)
	return is && w.OnlyWakes()
}

// enter enters the gate of s before user code runs. If another goroutine is inside, or this one is, it
// looks at the stack: every level of a chain, in which a callback completes the next operation, enters a
// gate and leaves it only when the levels above have returned. So after at most as many levels as there
// are gates, one of them finds its gate occupied. But a chain may go through any number of purgatories, each with
// gates of its own: so one in 4,096 looks in any case, as sched.Picks picks the address of what the gate is entered for.
//
// deep means that the stack must not grow, so that a worker has to run the code. inTry means that the
// goroutine is inside a TryComplete: a check from there is a worker's, too, since each operation that it
// tries may make the next.
func (p *DelayedOperationPurgatory[K]) enter(s *watchers.Shard[K], what unsafe.Pointer) (deep, inTry bool) {
	alone := s.Gate().Enter()
	if alone && !sched.Picks(what, 4096) {
		return false, false
	}
	return look(alone)
}

// look looks at the stack. Who is alone inside the gate is not inside a TryComplete of this shard.
func look(alone bool) (deep, inTry bool) {
	deep, inTry = machine.Nesting()
	return deep, inTry && (deep || !alone)
}

// entryOf returns m's entry in the type that a timer takes.
//
// The conversions here are safe: a machine and a TaskEntry both begin with an entry, and package
// timer uses no more of an operation's TaskEntry than that.
func entryOf(m *machine.Machine) *timer.TaskEntry {
	return (*timer.TaskEntry)(unsafe.Pointer(m.Entry()))
}

// entriesOf returns the entries of machines. The result shares its memory with machines.
func entriesOf(machines []*machine.Machine) []*timer.TaskEntry {
	return unsafe.Slice((**timer.TaskEntry)(unsafe.Pointer(unsafe.SliceData(machines))), len(machines))
}
