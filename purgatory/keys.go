package purgatory

import (
	"iter"
	"slices"

	"github.com/delayedop/purgatory/watchers"
)

// keySet is the purgatory's copy of an operation's keys, with their hashes: TryComplete may write to
// the slice that the caller has passed. The zero value is empty.
type keySet[K comparable] struct {
	few  [fewKeys]watchers.Wait[K]
	many *[]watchers.Wait[K] // from the pool, if there are more keys than fit into few
}

// fewKeys is the number of keys that fit on the stack of the registering goroutine.
const fewKeys = 4

// fill copies keys and at. It panics for a key that cannot be hashed, before anything has changed.
func (s *keySet[K]) fill(p *DelayedOperationPurgatory[K], keys []K, at []KeyPosition[K]) []watchers.Wait[K] {
	waits, n := s.few[:], len(keys)+len(at)
	if n > fewKeys {
		if s.many, _ = p.manyKeys.Get().(*[]watchers.Wait[K]); s.many == nil {
			s.many = new([]watchers.Wait[K])
		}
		*s.many = slices.Grow(*s.many, n)
		waits = *s.many
	}
	waits = waits[:n]
	for i, key := range keys {
		w := &waits[i]
		w.Key, w.Position, w.Hash = key, AnyPosition, p.watchers.Hash(key)
	}
	for i, at := range at {
		w := &waits[i]
		w.Key, w.Position, w.Hash = at.Key, at.Position, p.watchers.Hash(at.Key)
	}
	return waits
}

// release gives the memory of s back to the pool, which keeps no key in memory.
func (s *keySet[K]) release(p *DelayedOperationPurgatory[K]) {
	if s.many != nil {
		clear((*s.many)[:cap(*s.many)])
		p.manyKeys.Put(s.many)
	}
}

// chunk is how many keys a walk reads from a shard before it releases the shard's lock. So
// even in a shard of a million keys a registration waits for some microseconds only.
const chunk = 128

// eachKey calls f for the keys of s, in chunks, until f returns false. No lock is held while
// f runs.
func eachKey[K comparable](s *watchers.Shard[K], f func(k watchers.Key[K]) bool) (all bool) {
	var keys []watchers.Key[K]
	var at watchers.Place
	for more := true; more; {
		keys, at, more = s.SomeKeys(at, chunk, keys[:0])
		for _, k := range keys {
			if !f(k) {
				return false
			}
		}
	}
	return true
}

// Keys returns an iterator over the keys that operations wait for, in no order. It holds
// no lock while the loop's body runs, so the body may call any method. It yields every key
// that operations wait for during the whole loop. It may or may not yield a key that comes
// or goes meanwhile, and it may yield a key twice if many others go meanwhile. See
// [DelayedOperationPurgatory.NumKeys] for the number of keys.
func (p *DelayedOperationPurgatory[K]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for s := range p.watchers.Shards() {
			if !eachKey(s, func(k watchers.Key[K]) bool { return yield(k.Key) }) {
				return
			}
		}
	}
}

// Awaited reports whether an operation waits for key. It costs a lookup under a lock. The
// answer may be outdated when it comes.
func (p *DelayedOperationPurgatory[K]) Awaited(key K) bool {
	hash := p.watchers.Hash(key)
	return p.watchers.Shard(hash).Awaited(key, hash)
}

// CheckAndCompleteAll is [DelayedOperationPurgatory.CheckAndComplete] for every key. Use it
// if state may have changed and the keys are not known, as after a gap in a subscription.
// It tries every operation that waits, or is being registered, when it is called, key by key.
// It returns how many it ended. It reads the keys in chunks, and releases the lock between two
// chunks. Where CheckAndComplete leaves work to other goroutines, CheckAndCompleteAll calls
// SignalAll.
func (p *DelayedOperationPurgatory[K]) CheckAndCompleteAll() (completed int) {
	done := false
	defer func() {
		if !done { // not on this stack, or after a runtime.Goexit in a callback
			p.SignalAll()
		}
	}()
	if p.nesting.forbidsCheck() {
		return 0
	}
	for s := range p.watchers.Shards() {
		eachKey(s, func(k watchers.Key[K]) bool {
			w := p.newWalk(k.Key, k.Hash, EveryPosition)
			n, _ := w.beginAt(k)
			completed += n
			return true
		})
	}
	p.forgotten.checkedAll() // not before: see lastTry
	done = true
	return completed
}
