package purgatory

import (
	"runtime/trace"
	"unsafe"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// batchSize is how many operations end together.
const batchSize = 128

// ending has operations on their way from held to answered. Every way in which an operation
// can end goes through it, except that one whose first try says yes is in no list and no timer: its
// registration begins with 3. The caller holds the operations, adds each with its outcome, and
// calls run.
//
//  1. The operations leave their lists.
//  2. They leave the timer. A worker of the timer that has an entry already finds that the
//     operation is held, or that it has ended.
//  3. Their outcomes become final. So who sees one finds the operation's places free, in
//     WithMaxPending and in the timer's.
//  4. If the stack is deep, or workers are to run the callbacks, the ending is queued whole, and a
//     worker goes on with 5.
//  5. The callbacks run.
//
// An ending belongs to one goroutine at a time. If a callback calls runtime.Goexit, another
// goroutine goes on where the ending stands, and nobody waits for it.
type ending[K comparable] struct {
	p     *DelayedOperationPurgatory[K]
	shard *watchers.Shard[K] // of the key that was checked, or of an operation's first key
	cause *error             // of those that are cancelled; nil: the one that was left with the wish
	n     int

	ops      [batchSize]*machine.Machine // ops[:n]; nil when its callbacks have run
	outcomes [batchSize]machine.Outcome
	keys     [batchSize]K // the first key of each, from step 1 until its callbacks have run; for records

	at    int // ops[at] is the operation whose callbacks run
	begun int // how many of its callbacks have begun: 1 OnComplete, 2 OnExpiration
}

func (p *DelayedOperationPurgatory[K]) newEnding(s *watchers.Shard[K]) *ending[K] {
	e, _ := p.endings.Get().(*ending[K])
	if e == nil {
		e = &ending[K]{p: p}
	}
	e.shard = s
	return e
}

// add adds m, which the caller holds.
func (e *ending[K]) add(m *machine.Machine, o machine.Outcome) {
	e.ops[e.n], e.outcomes[e.n] = m, o
	e.n++
}

// run ends the operations and runs their callbacks, or has a worker run them if later is
// true. The caller is inside the gate of e's shard; run leaves the gate. It reports whether e
// is the caller's, and empty; otherwise it is a worker's.
func (e *ending[K]) run(later bool) (empty bool) {
	e.shard.Leave(e.ops[:e.n], e.outcomes[:e.n], e.keys[:e.n])
	switch {
	case e.n > 1:
		e.p.timer.CancelAll(entriesOf(e.ops[:e.n]))
	case e.outcomes[0] != machine.Expired: // whose entry a worker of the timer has taken out
		e.p.timer.Cancel(entryOf(e.ops[0]))
	}
	e.settle()
	return e.answer(later)
}

func (e *ending[K]) settle() {
	e.p.freePlaces(e.n)
	e.p.wishes.Settle(e.ops[:e.n], e.outcomes[:e.n], e.cause)
}

// answer runs the callbacks of operations that are settled, or has a worker run them. It
// returns what run does.
func (e *ending[K]) answer(later bool) (empty bool) {
	if later {
		e.shard.Gate().Exit(0)
		e.p.crew.hand(e)
		return false
	}
	e.callbacks()
	return true
}

// callbacks runs the callbacks from where e stands, even if one of them panics or calls
// runtime.Goexit. The caller is inside the gate.
func (e *ending[K]) callbacks() {
	over := false
	defer func() {
		if !over { // a callback has called runtime.Goexit
			sched.Go(func() {
				e.callbacks()
				e.recycle()
			})
		}
	}()
	if trace.IsEnabled() {
		defer e.p.region(regionCallbacks)()
	}
	for e.at < e.n {
		e.call()
	}
	over = true
	e.done()
}

// call runs the callbacks up to the first that panics.
func (e *ending[K]) call() {
	var none K
	defer func() {
		if e.at == e.n {
			return
		}
		if v := recover(); v != nil {
			e.p.reportPanic(v, e.ops[e.at], [...]string{"", "OnComplete", "OnExpiration"}[e.begun], e.keys[e.at])
		}
	}()
	for e.at < e.n {
		i := e.at
		m, expired := e.ops[i], e.outcomes[i] == machine.Expired
		if e.begun == 0 {
			e.begun = 1
			if e.p.cfg.slow == 0 {
				m.Operation().OnComplete()
			} else {
				e.timed(m, "OnComplete", m.Operation().OnComplete)
			}
		}
		if expired && e.begun == 1 {
			e.begun = 2
			if e.p.cfg.slow == 0 {
				m.Operation().OnExpiration()
			} else {
				e.timed(m, "OnExpiration", m.Operation().OnExpiration)
			}
		}
		// A later callback may block: it must not keep this operation in memory.
		e.ops[i], e.keys[i] = nil, none
		e.at, e.begun = i+1, 0
	}
}

func (e *ending[K]) timed(m *machine.Machine, name string, callback func()) {
	defer e.p.callbacks.end(e.p.callbacks.begin(m, name, e.keys[e.at]))
	running(m, callback)
}

// done counts the operations as answered, which [DelayedOperationPurgatory.Shutdown] compares
// with those that were accepted, leaves the gate and empties e.
func (e *ending[K]) done() {
	gate, n := e.shard.Gate(), e.n
	e.clear()
	gate.Exit(n)
}

// clear empties e, of which all operations were answered or taken.
func (e *ending[K]) clear() {
	e.shard, e.cause, e.n, e.at, e.begun = nil, nil, 0, 0, 0
}

// recycle gives e, which is empty, back to its pool.
func (e *ending[K]) recycle() { e.p.endings.Put(e) }

// take moves the next operation of from, whose callbacks have not begun, to e.
func (e *ending[K]) take(from *ending[K]) {
	i := from.at
	e.keys[e.n] = from.keys[i]
	e.add(from.ops[i], from.outcomes[i])
	var none K
	from.ops[i], from.keys[i] = nil, none
	from.at++
}

// endHeld is endOne for Machine.End: a worker of the timer calls it for an operation that expires,
// and the methods that end one operation do.
func (p *DelayedOperationPurgatory[K]) endHeld(s *watchers.Shard[K], m *machine.Machine, o machine.Outcome, cause *error) {
	if o == machine.Expired && p.cfg.lastTry && p.forgotten.lastTry(m) {
		o = machine.Satisfied
	}
	p.endOne(s, m, o, cause, false)
}

// endOne ends m, which the caller holds, and runs its callbacks, or has a worker run them if later
// is true. s is the shard of its first key.
func (p *DelayedOperationPurgatory[K]) endOne(s *watchers.Shard[K], m *machine.Machine, o machine.Outcome, cause *error, later bool) {
	e := p.newEnding(s)
	e.cause = cause
	e.add(m, o)
	if e.run(p.enter(s) || later) {
		e.recycle()
	}
}

// enter enters the gate of s before user code runs, and reports whether the stack is deep, so
// that a worker has to run it.
func (p *DelayedOperationPurgatory[K]) enter(s *watchers.Shard[K]) (deep bool) {
	if !s.Gate().Enter() && p.nesting.occupiedGate() {
		deep, _ = p.nesting.look()
	}
	return deep
}

// reportPanic tells the panic handler of a panic in one of m's methods. The deferred function
// that recovered calls it.
func (p *DelayedOperationPurgatory[K]) reportPanic(v any, m *machine.Machine, callback string, key K) {
	name := nameOf(m, func(any, []byte) {}) // one panic is reported, not that of String, too
	guard.Report(v, p.blame(m, name, callback, key))
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
