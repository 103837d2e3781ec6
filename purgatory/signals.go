package purgatory

import (
	"hash/maphash"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/workers"
	"github.com/delayedop/purgatory/watchers"
)

// crew is the purgatory's signal workers, and what they take: keys that were signalled, and operations whose callbacks
// were handed to them. It is safe for concurrent use.
type crew[K comparable] struct {
	p    *Purgatory[K]
	pool workers.Pool
	next sched.Uint32 // the kind of work with which a worker begins

	handed struct { // lock level 8, taken with no other held
		sched.Mutex
		ops []handed[K] // in the order in which they ended
	}
}

// handed is an operation that has ended, and whose callbacks a worker is to run.
type handed[K comparable] struct {
	m  *machine.Machine
	at watchers.Wait[K] // under whose key it has ended
}

func (c *crew[K]) hand(h handed[K]) {
	c.handed.Lock()
	c.handed.ops = append(c.handed.ops, h)
	c.handed.Unlock()
	c.pool.Kick()
}

func (c *crew[K]) Queued() bool {
	if c.p.watchers.Signalled() {
		return true
	}
	c.handed.Lock()
	defer c.handed.Unlock()
	return len(c.handed.ops) > 0
}

// idle reports whether no worker runs and there is no work. It asks for work first: otherwise the last worker may go
// between the questions, and start the next one for what is queued.
func (c *crew[K]) idle() bool { return !c.Queued() && c.pool.Idle() }

// Work does one piece of work, and reports whether there was any. Each of the two kinds comes first every second time,
// so that neither holds up the other.
func (c *crew[K]) Work() bool {
	if c.next.Add(1)%2 == 0 {
		return c.workHanded() || c.workSignal()
	}
	return c.workSignal() || c.workHanded()
}

// workHanded takes one operation: so a callback that blocks holds up no other.
func (c *crew[K]) workHanded() (found bool) {
	c.handed.Lock()
	if len(c.handed.ops) == 0 {
		c.handed.ops = nil // which was the end of an array
		c.handed.Unlock()
		return false
	}
	h := c.handed.ops[0]
	c.handed.ops[0], c.handed.ops = handed[K]{}, c.handed.ops[1:]
	c.handed.Unlock()
	c.pool.KickIfQueued() // the callbacks may block this worker
	e := ending[K]{p: c.p, visit: c.p.watchers.Enter(h.at, h.m, false), first: h.m}
	e.run()
	return true
}

func (c *crew[K]) workSignal() (found bool) {
	v, found := c.p.watchers.Take()
	if found {
		c.pool.KickIfQueued() // the callbacks may block this worker
	}
	if v != nil {
		w := walk[K]{Visit: v, batch: ending[K]{p: c.p, visit: v}}
		w.run()
	}
	return found
}

// Signal is [Purgatory.CheckAndComplete] for a caller that holds a lock, or must not run callbacks: workers check keys
// and run the callbacks. Signals of a key that come before its check begins make one check; one that comes during the
// check makes it begin anew. None is lost.
//
// Signal does not block, and calls no code of yours but a key's hash and equality, so it may be called under any lock.
// With one key it does not allocate.
func (p *Purgatory[K]) Signal(keys ...K) {
	if len(keys) == 1 {
		p.SignalUpTo(keys[0], EveryPosition)
		return
	}
	var few [fewKeys]watchers.Wait[K]
	for _, at := range p.hashed(few[:0], EveryPosition, keys) {
		p.signal(at)
	}
}

// hashed appends keys, with their hashes, to all: a callback may write to the caller's slice. It panics for a key that
// cannot be hashed, before a check or a signal of any.
func (p *Purgatory[K]) hashed(all []watchers.Wait[K], position int64, keys []K) []watchers.Wait[K] {
	for _, key := range keys {
		all = append(all, watchers.Wait[K]{Key: key, Position: position, Hash: maphash.Comparable(p.seed, key)})
	}
	return all
}

// SignalUpTo is [Purgatory.Signal] for [Purgatory.CheckAndCompleteUpTo]. It reports whether an operation waits for
// key. Several signals of a key make one check up to the highest of their positions.
func (p *Purgatory[K]) SignalUpTo(key K, position int64) (awaited bool) {
	return p.signal(watchers.Wait[K]{Key: key, Position: position, Hash: maphash.Comparable(p.seed, key)})
}

func (p *Purgatory[K]) signal(at watchers.Wait[K]) (awaited bool) {
	if h := p.cfg.hook; h != nil {
		h.Called(at.Key, at.Position, true)
	}
	_, awaited = p.watchers.Ask(at, false)
	return awaited
}
