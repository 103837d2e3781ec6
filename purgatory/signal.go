package purgatory

import (
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/watchers"
)

// Signal is [DelayedOperationPurgatory.CheckAndComplete] for a caller that holds a lock, or
// must not run callbacks. It marks each of keys and returns; signal workers check the keys
// and run the callbacks. Signals of a key that come before its check begins make one
// check; a signal that comes during the check makes another. None is lost. An operation
// that waits for several of the keys of one call is tried once, unless one of these keys
// is signalled by another call before its check begins.
//
// Signal does not block. With one key it does not allocate. It may be called from any
// callback, and under any lock, with one exception: it may call the function of
// [WithExecutor] and, if that returns an error, the logger of [WithLogger]. These must not
// take a lock that Signal's caller holds.
//
// If you hold no lock that an operation's method takes, use CheckAndComplete: it is cheaper,
// and the operations that it counts have ended when it returns.
func (p *DelayedOperationPurgatory[K]) Signal(keys ...K) {
	if len(keys) == 1 {
		p.signal(keys[0], p.watchers.Hash(keys[0]), EveryPosition, nil)
		return
	}
	hashes := make([]uint64, len(keys))
	for i, key := range keys { // Hash panics for a key that cannot be hashed, before any key is marked
		hashes[i] = p.watchers.Hash(key)
	}
	together, queued := new(watchers.Together), false
	for i, key := range keys {
		now, _ := p.watchers.Shard(hashes[i]).Signal(key, hashes[i], EveryPosition, together)
		queued = queued || now
	}
	if queued {
		p.workers.Kick()
	}
}

// SignalUpTo marks key as [DelayedOperationPurgatory.Signal] does, for a worker that then
// calls [DelayedOperationPurgatory.CheckAndCompleteUpTo]. Several signals of a key make one
// check up to the highest of their positions.
func (p *DelayedOperationPurgatory[K]) SignalUpTo(key K, position int64) {
	p.signal(key, p.watchers.Hash(key), position, nil)
}

func (p *DelayedOperationPurgatory[K]) signal(key K, hash uint64, upTo int64, t *watchers.Together) (awaited bool) {
	queued, awaited := p.watchers.Shard(hash).Signal(key, hash, upTo, t)
	if queued {
		p.workers.Kick()
	}
	return awaited
}

// working reports whether there is work for a signal worker.
func (p *DelayedOperationPurgatory[K]) working() bool {
	sched.Yield()
	return p.all.Load() || p.watchers.Signalled() || !p.handed.empty()
}

// work does one piece of a signal worker's work, and reports whether there was any. There
// are three kinds: callbacks that were handed over, the signal of all keys, and the signal
// of one. Each kind in turn comes first, so that none of them, arriving without end, keeps
// the others waiting.
func (p *DelayedOperationPurgatory[K]) work() bool {
	const kinds = 3
	turn := uint(p.turn.Add(1))
	for i := range uint(kinds) {
		var found bool
		switch (turn + i) % kinds {
		case 0:
			found = p.workHanded()
		case 1:
			found = p.signalAll()
		case 2:
			found = p.workSignal(turn / kinds)
		}
		if found {
			return true
		}
	}
	return false
}

// workSignal checks a signalled key.
func (p *DelayedOperationPurgatory[K]) workSignal(turn uint) (found bool) {
	key, ok := p.watchers.TakeSignal(turn)
	if !ok {
		return p.watchers.Signalled() // see TakeSignal: there may be another one
	}
	p.kickAnother()
	c := p.newCheck(p.watchers.Shard(key.Hash))
	c.together = key.Together
	c.begin(key.Key, key.Hash, key.UpTo)
	return true
}

// kickAnother starts a signal worker if there is work. A worker calls it before it runs a
// callback, which may block it.
func (p *DelayedOperationPurgatory[K]) kickAnother() {
	if p.working() {
		p.workers.Kick()
	}
}
