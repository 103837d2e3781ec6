package watchers

import (
	"iter"
	"math/bits"
	"runtime"
)

// progress is how far an iteration over the keys of a shard has come: the bucket of the shard's
// hash table that comes next. The zero value is the beginning.
//
// It stays valid when the table grows or shrinks, because the iteration visits the buckets
// in the order of their bit-reversed numbers. When a table doubles, bucket i splits into
// i and i+n. Both come before it in that order, or both come after it.
type progress uint64

// next returns the progress after bucket at in a table of n buckets. n is a power of two.
// next returns zero after the last bucket.
func (at progress) next(n int) progress {
	reversed := bits.Reverse64(uint64(at) | ^uint64(n-1))
	return progress(bits.Reverse64(reversed + 1))
}

// Key is a key with its hash, and the number of operations that wait for it.
type Key[K comparable] struct {
	Key     K
	Hash    uint64
	Waiting int
}

// chunk is how many keys AllKeys reads from a shard before it releases the shard's lock. So
// even in a shard of a million keys a registration waits for some microseconds only.
const chunk = 128

// AllKeys returns an iterator over the keys for which operations wait, in no order. It holds no
// lock while the loop's body runs. It yields every key for which operations wait all the time, and
// may yield keys twice if many others leave the map meanwhile.
func (w *Watchers[K]) AllKeys() iter.Seq[Key[K]] {
	return func(yield func(Key[K]) bool) {
		var keys []Key[K]
		for s := range w.Shards() {
			for at, more := progress(0), true; more; more = at != 0 {
				keys, at = s.someKeys(at, chunk, keys[:0])
				runtime.Gosched() // lets a goroutine run that has waited for the shard's lock
				for _, k := range keys {
					if !yield(k) {
						return
					}
				}
			}
		}
	}
}

// someKeys appends to out keys of s for which operations wait. It begins with the bucket
// at, and ends with the bucket in which it has appended the n-th key. next is where
// to continue, zero after the last bucket.
func (s *Shard[K]) someKeys(at progress, n int, out []Key[K]) (keys []Key[K], next progress) {
	s.lock()
	defer s.unlock()
	buckets := s.mu.keys.buckets
	for enough := len(out) + n; len(out) < enough; {
		for l := buckets[uint64(at)&uint64(len(buckets)-1)]; l != nil; l = l.chain {
			out = append(out, Key[K]{l.key, l.hash, l.Len()})
		}
		if at = at.next(len(buckets)); at == 0 {
			break
		}
	}
	return out, at
}

// Waiting returns how many operations wait for key.
func (s *Shard[K]) Waiting(key K, hash uint64) int {
	s.lock()
	defer s.unlock()
	return s.waitingLocked(key, hash)
}
