package watchers

import (
	"math/bits"

	"github.com/delayedop/purgatory/internal/machine"
)

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
			out = append(out, Key[K]{Key: l.key, Hash: l.hash})
		}
		return len(out) < enough
	})
	return out, next, more
}

// Gather puts operations of s into out, from the bucket at on, until out is full. It
// returns their number n, and where to continue. The operations of one key are next to
// each other, in the order in which they are tried.
//
// Gather appends to apart the keys whose operations do not fit into the rest of out, and
// all keys if tries are counted by key. The caller checks these with [Shard.Begin]. If
// Begin would not find such a key, because the key is not equal to itself, Gather appends
// its operations to rest.
func (s *Shard[K]) Gather(at Place, out []*machine.Machine, apart []Key[K]) (n int, rest []*machine.Machine, keys []Key[K], next Place, more bool) {
	counted := s.observer.CountsTries()
	next, more = s.someLists(at, func(l *keyList[K]) bool {
		waiting := l.waiting()
		found, fits := equal(l.key, l.key), !counted && waiting <= len(out)-n
		switch {
		case waiting == 0:
		case found && !fits:
			apart = append(apart, Key[K]{Key: l.key, Hash: l.hash})
		case fits:
			n = len(l.appendUpTo(out[:n], EveryPosition))
		default:
			rest = l.appendUpTo(rest, EveryPosition)
		}
		return n < len(out) && len(apart) < len(out) && len(rest) < len(out)
	})
	return n, rest, apart, next, more
}

// SignalSome signals keys of s as [Shard.Signal] does. It begins with the bucket at, and
// ends with the bucket in which it has signalled the chunk-th key. It reports where to
// continue.
func (s *Shard[K]) SignalSome(at Place, chunk int) (next Place, more bool) {
	return s.someLists(at, func(l *keyList[K]) bool {
		if l.waiting() > 0 {
			s.mu.signals.made++
			s.signalLocked(l, EveryPosition, nil)
			chunk--
		}
		return chunk > 0
	})
}

// someLists calls f, under the lock, for the keys in the buckets from at on. After f has
// returned false, someLists finishes the bucket and stops.
func (s *Shard[K]) someLists(at Place, f func(*keyList[K]) bool) (next Place, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
