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
//  2. It leaves the timer. A worker of the timer that has its entry already finds that the
//     operation is held, or that it has ended.
//  3. It leaves the lists of other shards.
//  4. Its outcome becomes final. A goroutine that sees it finds the operation's places free, in
//     WithMaxPending and in the timer's.
//  5. It is put into a chain, whose callbacks run next, or which the crew takes.
type ending[K comparable] struct {
	p           *Purgatory[K]
	shard       *watchers.Shard[K] // in which they end
	key         K                  // under which
	first, last *machine.Machine   // the chain
	n           int                // operations that were put into it
	begun       int                // how many of the callbacks of first have begun
	answered    int
	visit       watchers.Visit[K] // of the goroutine in the shard
	ofWalk      bool              // the walk that the ending is part of ends the visit
	later       bool              // workers are to run the callbacks
}

// settle is steps 3 to 5 for operations that have left the shard's lists, and the timer. cause is that of the call
// that ends them, nil if it was set with the wish.
func (e *ending[K]) settle(ops []*machine.Machine, cause *error) {
	if len(ops) == 0 {
		return
	}
	p := e.p
	if p.cfg.maxPending != noBound && !p.cfg.placeKept {
		p.places.Add(int64(-len(ops)))
	}
	for _, m := range ops {
		if m.Extra() != nil {
			watchers.LeaveOthers[K](m)
		}
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
	ops := [1]*machine.Machine{m}
	var e ending[K]
	e.p, e.later = p, later
	e.key, _, e.shard = watchers.FirstKey[K](m)
	var unchecked bool
	if e.visit, unchecked = e.shard.Leave(m); unchecked && !p.cfg.timeoutsExpected && !p.records.Off() {
		p.noteExpired(m, e.key)
	}
	if m.EndsAs() != machine.Expired { // else the entry has left the timer
		p.entries.Cancel(entryOf(m))
	}
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

// run runs the callbacks of those in the chain, or hands them to workers. A callback that ends another operation
// nests, and each level is one more visit in a shard: so at every lookEvery-th one the goroutine looks at its stack,
// and if that is deep, a worker goes on.
func (e *ending[K]) run() {
	if e.first == nil {
		return
	}
	if e.visit.Inside == 0 {
		e.visit = e.shard.Enter(e.key, e.first)
	}
	if e.visit.Inside%lookEvery == 0 && machine.Deep() {
		e.later = true
	}
	e.goOn()
}

// goOn runs the callbacks in the chain. After a runtime.Goexit, also one that came with a panic, its deferred function
// does what is left.
func (e *ending[K]) goOn() {
	over := false
	defer func() {
		if !over {
			e.goOn()
		}
	}()
	for !e.answer() {
	}
	over = true
	if !e.ofWalk {
		e.shard.Exit(e.visit, e.answered)
	}
}

// answer runs the callbacks in the chain until one panics, and reports whether it is over.
func (e *ending[K]) answer() (over bool) {
	defer func() {
		if over {
			return
		}
		if v := recover(); v != nil {
			e.p.records.Panic(v, e.first.Operation(), callbackNames[e.begun], e.key)
		}
	}()
	for m := e.first; m != nil; m = e.first {
		if e.later && !isWait(m) {
			e.first = m.Unchain()
			e.p.crew.hand(handed[K]{m, e.shard, e.key})
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
		e.answered++
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

// causes has the causes of cancellations that were set as a wish: the state word has room for the wish only. The
// holder finds the cause: it is added under the lock under which the wish is set, and the holder takes the lock after
// it has seen the wish.
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

// endKey ends the operations that wait for key with o, and returns how many. Their callbacks run when it has claimed
// all.
func (p *Purgatory[K]) endKey(key K, hash uint64, o machine.Outcome, cause *error, later bool) int {
	s := p.watchers.Used(hash)
	if s == nil {
		return 0
	}
	e := ending[K]{p: p, shard: s, key: key, later: later}
	p.walks(1, key)
	defer p.walks(-1, key)
	var ops [32]*machine.Machine
	n := len(ops)
	for most := 2 * p.watchers.Waiting(key, hash); n == len(ops) && e.n < most; { // others may keep arriving
		n = s.Claim(key, hash, func(m *machine.Machine) bool { return p.claim(m, o, cause) }, ops[:])
		p.entries.CancelAll(entriesOf(ops[:n]))
		e.settle(ops[:n], cause)
	}
	e.run()
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
