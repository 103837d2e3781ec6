// Package watchers is the sharded map from a key to the operations that wait for it. Package purgatory is its
// only user.
//
//	key ─► hash ─► Shard ─► keyList: those that wait for the key, in order of arrival,
//	                        then those that wait for a position, in order of position
//
// An operation counts as accepted in the shard of its first key, and as ended in the shard in which it ends;
// only the sums have a meaning. A key leaves the map when no operation waits for it.
//
// A shard's lock is held for a bounded part of a walk; longer when a hash table grows or shrinks, and for an insertion
// into the middle of a long ordered list.
package watchers

import (
	"hash/maphash"
	"iter"
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/stats"
)

// anyPosition is the position of an operation that waits for none: every check of the key tries it.
const anyPosition = math.MinInt64

// Watchers maps keys to waiting operations. It is safe for concurrent use.
type Watchers[K comparable] struct {
	seed maphash.Seed
	// nil until a key of the shard is first used; not explored: a shard is complete before it is stored, under making
	slots []atomic.Pointer[Shard[K]]

	config Config[K]

	making sched.Mutex // a shard is made once; lock level 8, taken with no other held
	closed sched.Bool  // Pass, and Watch of a first key, fail; read with the shard's lock held
	stale  sched.Int64 // stale watches, over all shards
	queue  queue[K]    // keys that were signalled, or that a walk has left to a worker
}

// Config is the configuration of New, which does not check it.
type Config[K comparable] struct {
	Shards     int                    // a power of two
	StaleLimit int                    // largest number of watches that may be stale at any moment
	KeyLimit   int                    // how many watches may stand under a key; 0: no limit
	End        func(*machine.Machine) // ends an operation that the caller holds, and that is linked
	Kick       func()                 // is called, with a shard's lock held, when a key was queued for TakeSignal

	Waited bool                 // whether to count how long operations waited
	Now    func() time.Duration // the clock of the operations' start and deadline
}

// DefaultShards returns 32 for each processor, rounded up to a power of two, from 64 to 4096.
func DefaultShards() int {
	n := min(max(32*runtime.GOMAXPROCS(0), 64), 4096)
	return 1 << bits.Len(uint(n-1))
}

// New returns an empty map.
func New[K comparable](c Config[K]) *Watchers[K] {
	return &Watchers[K]{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[Shard[K]], c.Shards), config: c}
}

// Seed returns the seed of [Watchers.Hash], for callers that need speed: that is not inlined, [maphash.Comparable] is.
func (w *Watchers[K]) Seed() maphash.Seed { return w.seed }

// Hash returns the hash of key. It panics if key contains an interface value that cannot be compared.
func (w *Watchers[K]) Hash(key K) uint64 { return maphash.Comparable(w.seed, key) }

// Used returns the shard of the keys with this hash, nil if nobody has waited for one.
func (w *Watchers[K]) Used(hash uint64) *Shard[K] {
	return w.slots[hash&uint64(len(w.slots)-1)].Load()
}

// Shard returns the shard of the keys with this hash, which it makes on first use.
func (w *Watchers[K]) Shard(hash uint64) *Shard[K] {
	i := hash & uint64(len(w.slots)-1)
	s := w.slots[i].Load()
	if s == nil {
		s = w.make(i)
	}
	return s
}

func (w *Watchers[K]) make(i uint64) *Shard[K] {
	w.making.Lock()
	defer w.making.Unlock()
	if made := w.slots[i].Load(); made != nil {
		return made
	}
	s := &Shard[K]{all: w}
	if w.config.Waited {
		s.waited = new(stats.Waited)
	}
	s.mu.keys.buckets = make([]*keyList[K], minBuckets)
	w.slots[i].Store(s)
	return s
}

// Shards returns an iterator over the shards that have been used. One that is first used meanwhile may be missing.
func (w *Watchers[K]) Shards() iter.Seq[*Shard[K]] {
	return func(yield func(*Shard[K]) bool) {
		for i := range w.slots {
			if s := w.slots[i].Load(); s != nil && !yield(s) {
				return
			}
		}
	}
}

// Close makes [Shard.Pass], and [Shard.Watch] for a first key, fail from now on. Whoever takes a shard's lock later
// finds every operation that it has accepted: a registration has linked its operation before, with that lock held, or
// takes the lock later, and reads closed.
func (w *Watchers[K]) Close() { w.closed.Store(true) }

// FirstKey returns the first key of m, which is held and linked.
func FirstKey[K comparable](m *machine.Machine) (key K, hash uint64, s *Shard[K]) {
	l := listOf[K](m.First())
	return l.key, l.hash, l.shard
}

// Waits returns what m waits for, which is held and linked under each key.
func Waits[K comparable](m *machine.Machine) (waits []Wait[K]) {
	for i := range m.Keys() {
		w := m.First()
		if i > 0 {
			w = &m.Extra()[i-1]
		}
		l := listOf[K](w)
		waits = append(waits, Wait[K]{l.key, w.Position, l.hash})
	}
	return waits
}
