// Package watchers is the sharded map from a key to the operations that wait for it, for package purgatory.
//
//	key ─► hash ─► shard ─► keyList: those that wait for the key, in order of arrival,
//	                        then those that wait for a position, in order of position
//
// An operation counts as accepted in the shard of its first key, and as ended in the shard in which it ends;
// only the sums have a meaning. A key leaves the map when no operation waits for it.
//
// A shard's lock is held for a bounded part of a walk; longer when a hash table grows or shrinks, for an insertion
// into the middle of a long ordered list, while Each looks at its keys, and where an operation with many keys ends.
package watchers

import (
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
	// nil until a key of the shard is first used; not explored: a shard is complete before it is stored, under making
	slots []atomic.Pointer[shard[K]]

	config Config[K]
	group  int // how many operations a walk reads at a time: as many as a Group has room for, but in tests

	making sched.Mutex  // a shard is made once; lock level 8, taken with no other held
	stale  sched.Int64  // stale watches, over all shards
	purged atomic.Int64 // not explored: it only counts

	// queue has the keys for which a worker is to begin a walk, each once: a ring, in which the last is ahead of the
	// first. A key that leaves the map leaves it. Lock level 6, below a shard's.
	queue struct {
		sched.Mutex
		first *keyList[K]
	}
}

// Config is the configuration of New, which does not check it.
type Config[K comparable] struct {
	Shards     int                    // a power of two; 0: 32 for each processor, rounded up, from 64 to 4096
	StaleLimit int                    // largest number of watches that may be stale at any moment
	Closed     *sched.Bool            // see Watch
	KeyLimit   int                    // how many watches may stand under a key; 0: no limit
	End        func(*machine.Machine) // ends an operation that the caller holds, and that is linked
	Kick       func()                 // is called, with a shard's lock held, when a key was queued for Take

	Waited bool                 // whether to count how long operations waited
	Now    func() time.Duration // the clock of the operations' start and deadline
}

// New returns an empty map.
func New[K comparable](c Config[K]) *Watchers[K] {
	if c.Shards == 0 {
		n := min(max(32*runtime.GOMAXPROCS(0), 64), 4096)
		c.Shards = 1 << bits.Len(uint(n-1))
	}
	return &Watchers[K]{slots: make([]atomic.Pointer[shard[K]], c.Shards), config: c, group: len(machine.Group{})}
}

// used returns the shard of the keys with this hash, nil if nobody has waited for one.
func (w *Watchers[K]) used(hash uint64) *shard[K] { return w.slots[hash&uint64(len(w.slots)-1)].Load() }

// shard returns the shard of the keys with this hash, which it makes on first use.
func (w *Watchers[K]) shard(hash uint64) *shard[K] {
	s := w.used(hash)
	if s == nil {
		s = w.make(hash)
	}
	return s
}

func (w *Watchers[K]) make(hash uint64) *shard[K] {
	w.making.Lock()
	defer w.making.Unlock()
	if made := w.used(hash); made != nil {
		return made
	}
	s := &shard[K]{all: w}
	s.mu.visit.shard = s
	if w.config.Waited {
		s.waited = new(stats.Waited)
	}
	s.mu.keys.buckets = make([]*keyList[K], minBuckets)
	w.slots[hash&uint64(len(w.slots)-1)].Store(s)
	return s
}

// shards returns an iterator over the shards that have been used. One that is first used meanwhile may be missing.
func (w *Watchers[K]) shards() iter.Seq[*shard[K]] {
	return func(yield func(*shard[K]) bool) {
		for i := range w.slots {
			if s := w.slots[i].Load(); s != nil && !yield(s) {
				return
			}
		}
	}
}

// Waits returns what m waits for, which is held and linked under each key: the first key, then the chain of the others.
func Waits[K comparable](m *machine.Machine) (waits []Wait[K]) {
	for w, x := m.First(), *m.Extra(); ; w, x = &x.Watch, x.Next {
		l := listOf[K](w)
		waits = append(waits, Wait[K]{l.key, w.Position, l.hash})
		if x == nil {
			return waits
		}
	}
}
