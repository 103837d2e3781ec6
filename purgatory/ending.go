package purgatory

import (
	"runtime/trace"
	"slices"
	"unsafe"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// batchSize is how many operations end together.
const batchSize = 128

// ending has operations on their way from held to answered. Every way in which an operation
// can end goes through it, except that one whose first try says yes is in no list and no timer: its
// registration begins with 3. The caller holds the operations, adds each with its outcome,
// and goes through these steps.
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
	shard *watchers.Shard[K] // of the key that was checked, or of an operation's first key
	cause *error             // of those that are cancelled; nil: the one that was left with the wish

	ops      []*machine.Machine // nil when its callbacks have run; the capacity is fixed
	outcomes []machine.Outcome
	keys     []K // the first key of each, from step 1 until its callbacks have run; for records

	at    int // ops[at] is the operation whose callbacks run
	begun int // how many of its callbacks have begun: 1 OnComplete, 2 OnExpiration
}

// add adds m, which the caller holds.
func (e *ending[K]) add(m *machine.Machine, o machine.Outcome) {
	e.ops, e.outcomes = append(e.ops, m), append(e.outcomes, o)
}

// end is steps 1 to 3.
func (e *ending[K]) end() {
	if len(e.ops) > 0 {
		e.leave()
		e.p.timer.CancelAll(entriesOf(e.ops))
		e.settle()
	}
}

// leave is step 1.
func (e *ending[K]) leave() {
	e.keys = e.keys[:len(e.ops)]
	e.shard.Leave(e.ops, e.outcomes, e.keys)
}

// settle is step 3.
func (e *ending[K]) settle() {
	e.p.freePlaces(len(e.ops))
	e.p.wishes.Settle(e.ops, e.outcomes, e.cause)
}

// answer is steps 4 and 5. The caller is inside the gate of e's shard; answer leaves it.
func (e *ending[K]) answer(later bool) {
	if later {
		answered := e.p.crew.hand(e)
		e.clear()
		e.shard.Gate().Exit(answered)
		return
	}
	e.callbacks()
}

// callbacks runs the callbacks from where e stands, and leaves the gate. If one of them panics, the caller
// recovers, and calls it again.
func (e *ending[K]) callbacks() {
	if trace.IsEnabled() {
		defer e.p.region(regionCallbacks)()
	}
	var none K
	for e.at < len(e.ops) {
		op := e.ops[e.at].Operation()
		if e.begun == 0 {
			e.begun = 1
			if e.p.cfg.slow == 0 {
				op.OnComplete()
			} else {
				e.timed(op.OnComplete)
			}
		}
		if e.outcomes[e.at] == machine.Expired && e.begun == 1 {
			e.begun = 2
			if e.p.cfg.slow == 0 {
				op.OnExpiration()
			} else {
				e.timed(op.OnExpiration)
			}
		}
		// A later callback may block: it must not keep this operation in memory.
		e.ops[e.at], e.keys[e.at] = nil, none
		e.at, e.begun = e.at+1, 0
	}
	// Shutdown compares the number of those that are answered with that of those that were accepted.
	e.shard.Gate().Exit(e.clear())
}

// callback names the callback that runs.
func (e *ending[K]) callback() string {
	return [...]string{"", "OnComplete", "OnExpiration"}[e.begun]
}

// timed calls a callback with [WithSlowCallback].
func (e *ending[K]) timed(callback func()) {
	defer e.p.callbacks.end(e.p.callbacks.begin(e.ops[e.at], e.callback(), e.keys[e.at]))
	callback()
}

// blame returns the call of the handler for v, the value of a panic in a callback.
func (e *ending[K]) blame(v any) func() {
	return e.p.recovered(v, e.ops[e.at], e.callback(), e.keys[e.at])
}

// clear empties e, and returns how many operations it had.
func (e *ending[K]) clear() (n int) {
	n = len(e.ops)
	clear(e.ops)
	clear(e.keys)
	e.ops, e.outcomes, e.keys, e.at = e.ops[:0], e.outcomes[:0], e.keys[:0], 0
	return n
}

// single is the memory of an ending of one operation.
type single[K comparable] struct {
	op      [1]*machine.Machine
	outcome [1]machine.Outcome
	key     [1]K
}

// finish runs the callbacks of an ending of one operation, or has a worker run them if later is true.
// e is on the stack of its goroutine.
func (e *ending[K]) finish(later bool) {
	over := false
	defer func() {
		if !over { // a callback, or the handler of its panic, has called runtime.Goexit
			rest := &ending[K]{p: e.p, shard: e.shard, at: e.at, begun: e.begun}
			rest.ops, rest.outcomes, rest.keys = slices.Clone(e.ops), slices.Clone(e.outcomes), slices.Clone(e.keys)
			sched.Go(func() { rest.finish(false) })
		}
	}()
	for !over {
		over = e.answerSafely(later)
	}
}

// answerSafely is answer that returns false, early, if a callback panics.
func (e *ending[K]) answerSafely(later bool) (over bool) {
	defer func() {
		if !over {
			if v := recover(); v != nil {
				e.blame(v)()
			}
		}
	}()
	e.answer(later)
	return true
}

// endHeld is endOne for an operation that expires: a worker of the timer calls it.
func (p *DelayedOperationPurgatory[K]) endHeld(s *watchers.Shard[K], m *machine.Machine, o machine.Outcome, cause *error) {
	if h := p.cfg.hook; h != nil && o == machine.Expired && p.lastLook(h, m) {
		o = machine.Satisfied
	}
	p.endOne(s, m, o, cause, false)
}

// endOne ends m, which the caller holds, and runs its callbacks, or has a worker run them if later
// is true. s is the shard of its first key.
func (p *DelayedOperationPurgatory[K]) endOne(s *watchers.Shard[K], m *machine.Machine, o machine.Outcome, cause *error, later bool) {
	mem := single[K]{op: [1]*machine.Machine{m}, outcome: [1]machine.Outcome{o}}
	e := ending[K]{p: p, shard: s, cause: cause, ops: mem.op[:], outcomes: mem.outcome[:], keys: mem.key[:]}
	deep, _ := p.enter(s)
	e.leave()
	if o != machine.Expired { // whose entry a worker of the timer has taken out
		p.timer.Cancel(entryOf(m))
	}
	e.settle()
	e.finish(later || deep)
}

// enter enters the gate of s before user code runs. If another goroutine is inside, or this one is, it
// looks at the stack: every level of a chain, in which a callback completes the next operation, enters a
// gate and leaves it only when the levels above have returned. So after at most as many levels as there
// are gates, one of them finds its gate occupied. deep means that the stack must not grow, so that a
// worker has to run the code. inTry means that the goroutine is inside a TryComplete: a check from there
// is a worker's, too, since each operation that it tries may make the next.
func (p *DelayedOperationPurgatory[K]) enter(s *watchers.Shard[K]) (deep, inTry bool) {
	if s.Gate().Enter() {
		return false, false
	}
	return machine.Nesting()
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
