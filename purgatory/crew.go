package purgatory

import (
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/workers"
	"github.com/delayedop/purgatory/watchers"
)

// crew is the purgatory's signal workers, and what they take: operations whose callbacks were
// handed to them, and signalled keys. It is safe for concurrent use.
type crew[K comparable] struct {
	p    *DelayedOperationPurgatory[K]
	pool workers.Pool
	next sched.Uint32 // the kind of work, and the shard, with which a worker begins

	handed struct { // lock level 8, taken with no other held
		sched.Mutex
		ops []handed[K] // in the order in which they ended
	}
}

// handed is an operation that has ended, and whose callbacks were handed to a worker.
type handed[K comparable] struct {
	m     *machine.Machine
	shard *watchers.Shard[K]
	key   K
}

// hand hands the callbacks of an operation to a worker.
func (c *crew[K]) hand(h handed[K]) {
	c.handed.Lock()
	c.handed.ops = append(c.handed.ops, h)
	c.handed.Unlock()
	c.pool.Kick()
}

// takeHanded takes one operation: so a callback that blocks holds up no other while a worker is free. See
// docs/decisions.md#callbacks-are-handed-over-one-by-one.
func (c *crew[K]) takeHanded() (h handed[K], ok bool) {
	c.handed.Lock()
	defer c.handed.Unlock()
	if len(c.handed.ops) == 0 {
		return h, false
	}
	h, c.handed.ops[0] = c.handed.ops[0], h
	if c.handed.ops = c.handed.ops[1:]; len(c.handed.ops) == 0 {
		c.handed.ops = nil
	}
	return h, true
}

// Queued reports whether there is work.
func (c *crew[K]) Queued() bool {
	if c.p.watchers.Signalled() {
		return true
	}
	c.handed.Lock()
	defer c.handed.Unlock()
	return len(c.handed.ops) > 0
}

// idle reports whether no worker runs and there is no work.
func (c *crew[K]) idle() bool { return c.pool.Idle() && !c.Queued() }

// Work does one piece of work, and reports whether there was any. Each of the two kinds
// comes first every other time, so that neither of them, arriving without end, holds up the other.
func (c *crew[K]) Work() bool {
	kinds := [...]func(from uint) bool{c.workHanded, c.workSignal}
	const n = uint(len(kinds))
	next := uint(c.next.Add(1))
	for i := range n {
		if kinds[(next+i)%n](next / n) {
			return true
		}
	}
	return false
}

// workHanded runs the callbacks of one operation. It does not look at the stack: to hand them on
// would help nobody.
func (c *crew[K]) workHanded(uint) (found bool) {
	h, found := c.takeHanded()
	if found {
		c.pool.KickIfQueued() // the callbacks may block this worker
		h.shard.Gate().Enter()
		c.p.answerOne(h.shard, h.m, h.m.Outcome(), h.key, 0)
	}
	return found
}

// workSignal checks a signalled key.
func (c *crew[K]) workSignal(from uint) (found bool) {
	s, ok := c.p.watchers.TakeSignal(from)
	if !ok {
		return c.p.watchers.Signalled() // see TakeSignal: there may be another one
	}
	c.pool.KickIfQueued() // the callbacks may block this worker
	if s.InOrder {
		c.p.checkInOrder(s.Key, s.Hash, nil)
	} else {
		c.p.check(s.Key, s.Hash, s.UpTo)
	}
	return true
}

// Signal is [DelayedOperationPurgatory.CheckAndComplete] for a caller that holds a lock, or
// must not run callbacks. It marks each of keys and returns; signal workers check the keys
// and run the callbacks. Signals of a key that come before its check begins make one
// check; a signal that comes during the check makes another. None is lost.
//
// Signal does not block, and calls no code of yours but a key's hash and equality. With one key it
// does not allocate. It may be called from any callback, and under any lock.
//
// If you hold no lock that an operation's method takes, and may pay for the methods of those that
// wait, use CheckAndComplete: it is cheaper, and the operations that it counts have ended when it
// returns.
func (p *DelayedOperationPurgatory[K]) Signal(keys ...K) {
	p.made()
	if len(keys) == 1 {
		p.signal(keys[0], p.watchers.Hash(keys[0]), EveryPosition, false)
		return
	}
	hashes := p.hashes(keys)
	for i, key := range keys {
		p.signal(key, hashes[i], EveryPosition, false)
	}
}

// hashes returns the hashes of keys. It panics for a key that cannot be hashed, before a check
// or a signal of any.
func (p *DelayedOperationPurgatory[K]) hashes(keys []K) []uint64 {
	hashes := make([]uint64, len(keys))
	for i, key := range keys {
		hashes[i] = p.watchers.Hash(key)
	}
	return hashes
}

// SignalUpTo marks key as [DelayedOperationPurgatory.Signal] does, for a worker that then
// calls [DelayedOperationPurgatory.CheckAndCompleteUpTo], and reports whether an operation
// waits for key. Several signals of a key make one check up to the highest of their positions.
func (p *DelayedOperationPurgatory[K]) SignalUpTo(key K, position int64) (awaited bool) {
	p.made()
	return p.signal(key, p.watchers.Hash(key), position, false)
}

// SignalInOrder marks key as [DelayedOperationPurgatory.Signal] does, for a worker that then
// calls [DelayedOperationPurgatory.CheckAndCompleteInOrder]. A signal of both kinds makes a
// check that tries every operation.
func (p *DelayedOperationPurgatory[K]) SignalInOrder(key K) {
	p.made()
	p.signal(key, p.watchers.Hash(key), EveryPosition, true)
}

func (p *DelayedOperationPurgatory[K]) signal(key K, hash uint64, upTo int64, inOrder bool) (awaited bool) {
	if h := p.cfg.hook; h != nil {
		h.Called(key, true, inOrder)
	}
	return p.watchers.Shard(hash).Signal(key, hash, upTo, inOrder)
}
