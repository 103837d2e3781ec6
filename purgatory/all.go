package purgatory

import (
	"iter"
	"runtime"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/watchers"
)

// chunk is how many keys a walk reads from a shard before it releases the shard's lock. So
// even in a shard of a million keys a registration waits for some microseconds only.
const chunk = 128

// Keys returns an iterator over the keys that operations wait for, in no order. It holds
// no lock while the loop's body runs, so the body may call any method. It yields every key
// that operations wait for during the whole loop. It may or may not yield a key that comes
// or goes meanwhile, and it may yield a key twice if many others go meanwhile. See
// [DelayedOperationPurgatory.NumKeys] for the number of keys.
func (p *DelayedOperationPurgatory[K]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		var keys []watchers.Key[K]
		for _, s := range p.watchers.Shards() {
			var at watchers.Place
			for more := true; more; {
				keys, at, more = s.SomeKeys(at, chunk, keys[:0])
				for _, k := range keys {
					if !yield(k.Key) {
						return
					}
				}
			}
		}
	}
}

// CheckAndCompleteAll is [DelayedOperationPurgatory.CheckAndComplete] for every key. Use it
// if state may have changed and the keys are not known, as after a gap in a subscription.
// It tries every operation that waits, or is being registered, when it is called, those of
// one key in the order in which they were registered. It returns how many it ended. It
// reads the keys in chunks, and releases the lock between two chunks. Where CheckAndComplete
// leaves work to other goroutines, CheckAndCompleteAll calls SignalAll.
func (p *DelayedOperationPurgatory[K]) CheckAndCompleteAll() (completed int) {
	if p.nests.Load() && p.nested() {
		p.SignalAll()
		return 0
	}
	done := false
	defer func() {
		if !done { // after runtime.Goexit in a callback workers do the rest
			p.SignalAll()
		}
	}()
	var apart []watchers.Key[K]
	for _, s := range p.watchers.Shards() {
		var at watchers.Place
		for more := true; more; {
			c := p.newCheck(s)
			c.n, c.rest, apart, at, more = c.shard.Gather(at, c.ops[:], apart[:0])
			completed += c.finish()
			for _, k := range apart {
				completed += p.check(k.Key, k.Hash, EveryPosition, nil)
			}
		}
	}
	done = true
	return completed
}

// SignalAll sets a mark and returns; signal workers check every key, as
// [DelayedOperationPurgatory.CheckAndCompleteAll] does. Calls that come before the workers
// begin make one pass over the keys; a call that comes later makes another. SignalAll may
// be called where [DelayedOperationPurgatory.Signal] may be. It does not reach operations
// that wait only for keys that are not equal to themselves, as NaN is. When Close has ended
// every operation it does nothing.
func (p *DelayedOperationPurgatory[K]) SignalAll() {
	sched.Yield()
	if !p.emptied.Load() && !p.all.Swap(true) { // a loop of calls must not keep Shutdown from returning
		p.workers.Kick()
	}
}

// signalAll does what SignalAll has asked for: it signals every key, so that the workers
// share the checks: the worker that has called it takes the first one, and starts another
// worker. It clears the mark before it reads the first key, so that a later SignalAll sets
// the mark again.
func (p *DelayedOperationPurgatory[K]) signalAll() (asked bool) {
	sched.Yield()
	if !p.all.Swap(false) {
		return false
	}
	for _, s := range p.watchers.Shards() {
		var at watchers.Place
		for more := true; more; {
			at, more = s.SignalSome(at, chunk)
			runtime.Gosched() // lets a goroutine run that has waited for the shard's lock
		}
	}
	return true
}

// Hint is [DelayedOperationPurgatory.SignalUpTo] for a change that another process has made
// and announced. It reports whether an operation waits for key.
func (p *DelayedOperationPurgatory[K]) Hint(key K, position int64) (awaited bool) {
	return p.signal(key, p.watchers.Hash(key), position, nil)
}
