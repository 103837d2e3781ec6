package watchers

import "math/bits"

// Place is how far a walk over the keys of a shard has come: the bucket of the shard's
// hash table that comes next. The zero value is the beginning.
//
// A Place stays valid when the table grows or shrinks, because a walk visits the buckets
// in the order of their bit-reversed numbers. When a table doubles, bucket i splits into
// i and i+n. Both come before a Place in that order, or both come after it.
type Place uint64

// next returns the place after bucket at in a table of n buckets. n is a power of two.
// next returns zero after the last bucket.
func (at Place) next(n int) Place {
	reversed := bits.Reverse64(uint64(at) | ^uint64(n-1))
	return Place(bits.Reverse64(reversed + 1))
}

// Key is a key with its hash.
type Key[K comparable] struct {
	Key  K
	Hash uint64
}

// SomeKeys appends to out keys of s for which operations wait. It begins with the bucket
// at, and ends with the bucket in which it has appended the chunk-th key. next is where
// to continue; more is false after the last bucket. A walk from the beginning to the end
// returns every key that is in the table all the time, and may return keys twice if the
// table shrinks meanwhile.
func (s *Shard[K]) SomeKeys(at Place, chunk int, out []Key[K]) (keys []Key[K], next Place, more bool) {
	enough := len(out) + chunk
	next, more = s.someLists(at, func(l *keyList[K]) bool {
		if l.waiting() > 0 {
			out = append(out, Key[K]{l.key, l.hash})
		}
		return len(out) < enough
	})
	return out, next, more
}

// SignalSome signals keys of s as [Shard.Signal] does. It begins with the bucket at, and
// ends with the bucket in which it has signalled the chunk-th key. It reports where to
// continue.
func (s *Shard[K]) SignalSome(at Place, chunk int) (next Place, more bool) {
	return s.someLists(at, func(l *keyList[K]) bool {
		if l.waiting() > 0 {
			s.mu.signals.made++
			s.signalLocked(l, EveryPosition, false)
			chunk--
		}
		return chunk > 0
	})
}

// Awaited reports whether operations wait for key.
func (s *Shard[K]) Awaited(key K, hash uint64) bool {
	s.mu.Lock()
	defer s.unlock()
	l := s.mu.keys.find(key, hash)
	return l != nil && l.waiting() > 0
}

// someLists calls f, under the lock, for the keys in the buckets from at on. After f has
// returned false, someLists finishes the bucket and stops.
func (s *Shard[K]) someLists(at Place, f func(*keyList[K]) bool) (next Place, more bool) {
	s.mu.Lock()
	defer s.unlock()
	buckets := s.mu.keys.buckets
	for going := len(buckets) > 0; going; {
		for l := buckets[uint64(at)&uint64(len(buckets)-1)]; l != nil; l = l.chain {
			going = f(l) && going
		}
		if at = at.next(len(buckets)); at == 0 {
			return 0, false
		}
	}
	return at, len(buckets) > 0
}
