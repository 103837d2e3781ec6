package watchers

import "iter"

// Key is a key with its hash, and the number of operations that wait for it.
type Key[K comparable] struct {
	Key     K
	Hash    uint64
	Waiting int
}

// AllKeys returns an iterator over the keys for which operations wait, in no order. It holds no lock while the
// loop's body runs.
func (w *Watchers[K]) AllKeys() iter.Seq[Key[K]] {
	return func(yield func(Key[K]) bool) {
		var keys []Key[K]
		for s := range w.Shards() {
			keys = keys[:0]
			s.lock()
			for _, l := range s.mu.keys.buckets {
				for ; l != nil; l = l.chain {
					keys = append(keys, Key[K]{l.key, l.hash, l.Len()})
				}
			}
			s.unlock()
			for _, k := range keys {
				if !yield(k) {
					return
				}
			}
		}
	}
}

// Waiting returns how many operations wait for key.
func (s *Shard[K]) Waiting(key K, hash uint64) int {
	s.lock()
	defer s.unlock()
	return s.waitingLocked(key, hash)
}
