package purgatory

import (
	"unsafe"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// ending has operations of one shard, which the caller holds, on their way from held to answered. Every end goes
// through these steps:
//
//  1. It leaves the lists of the shard in which it ends, under that shard's lock.
//  2. It leaves the lists of other shards.
//  3. It leaves the timer. A worker of the timer that has its entry already finds that the
//     operation is held, or that it has ended.
//  4. Its outcome becomes final. A goroutine that sees it finds the operation's places free, in
//     WithMaxPending and in the timer's.
//  5. It is put into a chain, whose callbacks run next, or which the crew takes.
type ending[K comparable] struct {
	p           *Purgatory[K]
	visit       *watchers.Visit[K] // of the goroutine in the shard, before callbacks run
	first, last *machine.Machine   // the chain
	n           int                // operations that were put into it
	begun       int                // how many of the callbacks of first have begun
	later       bool               // workers are to run the callbacks
}

// settle is steps 4 and 5 for operations that have left the lists and the timer. cause is that of the call that ends
// them, nil if it was set with the wish.
func (e *ending[K]) settle(ops []*machine.Machine, cause *error) {
	if len(ops) == 0 {
		return
	}
	p := e.p
	if p.cfg.maxPending != noBound && !p.cfg.placeKept {
		p.places.Add(int64(-len(ops)))
	}
	for _, m := range ops {
		own := cause
		if own == nil && m.EndsAs() == machine.Cancelled {
			own = p.causes.take(m)
		}
		if m.Settle(own) {
			p.causes.take(m)
		}
		if e.first == nil {
			e.first = m
		} else {
			e.last.Chain(m)
		}
		e.last = m
	}
	e.n += len(ops)
}

// endOne ends m, which the caller holds and which waits. With later, a worker runs its callbacks.
func (p *Purgatory[K]) endOne(m *machine.Machine, cause *error, later bool) {
	v, unchecked := p.watchers.Leave(m)
	if unchecked && !p.cfg.timeoutsExpected && p.records.Logger != nil {
		p.noteExpired(m, v.Key)
	}
	if m.EndsAs() != machine.Expired { // else the entry has left the timer
		p.entries.Cancel(entryOf(m))
	}
	e := ending[K]{p: p, visit: v, later: later}
	ops := [1]*machine.Machine{m}
	e.settle(ops[:], cause)
	e.run()
}

func (p *Purgatory[K]) expired(m *machine.Machine) {
	if h := p.cfg.hook; h != nil && p.lastTry(h, m) {
		m.Met()
	}
	p.endOne(m, nil, false)
}

const lookEvery = 32

// run runs the callbacks of those in the chain, and ends the visit. After a runtime.Goexit, also one that came with a
// panic, its deferred function does what is left.
func (e *ending[K]) run() {
	over := false
	defer func() {
		if !over {
			e.run()
		}
	}()
	e.answerAll()
	over = true
	e.visit.Exit()
}

// answerAll runs the callbacks of those in the chain, or hands them to workers. A callback that ends another operation
// nests, and each level is one more visit, in the first place of its shard that is free. So a goroutine has at most
// lookEvery-1 of them, and as many again for each other one inside, when it takes the lookEvery-th place or a multiple
// of that: then it looks at its stack, and if that is deep, a worker goes on.
func (e *ending[K]) answerAll() {
	if e.visit.Place%lookEvery == 0 && machine.Deep() {
		e.later = true
	}
	for !e.answer() {
	}
}

// answer runs the callbacks in the chain until one panics, and reports whether it is over.
func (e *ending[K]) answer() (over bool) {
	defer func() {
		if over {
			return
		}
		if v := recover(); v != nil {
			e.p.records.Panic(v, e.first.Operation(), callbackNames[e.begun], e.visit.Key)
		}
	}()
	for m := e.first; m != nil; m = e.first {
		if e.later && !isWait(m) {
			e.first = m.Unchain()
			e.p.crew.hand(handed[K]{m, e.visit.Wait})
			continue
		}
		op := m.Operation()
		if e.begun == 0 {
			e.begun = 1
			op.OnComplete()
		}
		if e.begun == 1 && m.Outcome() == machine.Expired {
			e.begun = 2
			op.OnExpiration()
		}
		e.begun = 0
		e.first = m.Unchain() // a later callback may block: it must not keep this operation in memory
		e.visit.Answered()
		if e.p.cfg.placeKept && m.Start() >= 0 { // it has waited, and so has a place
			e.p.places.Add(-1)
		}
	}
	return true
}

var callbackNames = [...]string{1: "OnComplete", 2: "OnExpiration"}

// isWait reports whether m is a wait of the library itself, whose callbacks need no worker.
func isWait(m *machine.Machine) bool {
	w, is := m.Operation().(machine.Waker)
	return is && w.OnlyWakes()
}

// causes has the causes of cancellations that were set as a wish: the state word has room for the wish only. The holder
// finds it: it is added under the lock under which the wish is set, and the holder takes the lock after it has seen that.
type causes struct {
	sched.Mutex // lock level 7: taken with that of a shard held, or with none
	all         map[*machine.Machine]*error
}

func (c *causes) take(m *machine.Machine) *error {
	c.Lock()
	defer c.Unlock()
	cause := c.all[m]
	delete(c.all, m)
	return cause
}

// claim makes the caller the holder of m, to end it with o. Another holder gets o as a wish.
func (p *Purgatory[K]) claim(m *machine.Machine, o machine.Outcome, cause *error) (held bool) {
	if o != machine.Cancelled {
		held, _ = m.Claim(o, p.id)
		return held
	}
	c := &p.causes
	c.Lock()
	defer c.Unlock()
	held, wished := m.Claim(o, p.id)
	if wished {
		if c.all == nil {
			c.all = make(map[*machine.Machine]*error)
		}
		c.all[m] = cause
	}
	return held
}

// endKey ends the operations that wait for the key of at with o, and returns how many. It claims all before their
// callbacks run.
func (p *Purgatory[K]) endKey(at watchers.Wait[K], o machine.Outcome, cause *error, later bool) int {
	e := ending[K]{p: p, later: later}
	p.walks(1, at.Key)
	defer p.walks(-1, at.Key)
	var ops [32]*machine.Machine
	n := len(ops)
	for most := 2 * p.watchers.Waiting(at); n == len(ops) && (e.n < most || o == machine.Closed); { // others may keep arriving, until the purgatory closes
		n = p.watchers.Claim(at, func(m *machine.Machine) bool { return p.claim(m, o, cause) }, ops[:])
		p.entries.CancelAll(entriesOf(ops[:n]))
		e.settle(ops[:n], cause)
	}
	if e.n > 0 {
		e.visit = p.watchers.Enter(at, e.first, false)
		e.run()
	}
	return e.n
}

// entryOf returns m's entry. The conversions here are safe: a machine and a TaskEntry both begin with an entry, and
// package timer uses no more of an operation's TaskEntry.
func entryOf(m *machine.Machine) *timer.TaskEntry {
	return (*timer.TaskEntry)(unsafe.Pointer(m.Entry()))
}

func entriesOf(machines []*machine.Machine) []*timer.TaskEntry {
	return unsafe.Slice((**timer.TaskEntry)(unsafe.Pointer(unsafe.SliceData(machines))), len(machines))
}
