// Package watchers is the sharded map from a key to the operations that wait for
// it. A key hashes to a shard; the shard has one lock for its map, its lists, and
// the counts of the operations that are at home there.
//
// A key's operations stand in two lists: those that wait for the key as such, in
// the order in which they came, and those that wait for a position on it, in order
// of position. A key with both lists empty is not in the map.
//
// No lock is held while user code runs, and no method blocks for longer than a
// lock that guards a few dozen instructions. The package is the purgatory's own:
// it knows lists, not what the operations in them are for.
package watchers

import (
	"hash/maphash"
	"math"
	"math/bits"
	"runtime"
	"time"

	"go.uber.org/atomic"

	"github.com/delayedop/purgatory/operation"
)

// Any is the position of an operation that waits for no position in
// particular: it is tried whenever something happens to the key.
const Any = math.MinInt64

// Everything is the position that reaches every waiter.
const Everything = math.MaxInt64

// Watchers maps keys to waiting operations. It is safe for concurrent use.
type Watchers[K comparable] struct {
	seed   maphash.Seed
	shards []Shard[K]
	mask   uint64

	end func(s *Shard[K], m *operation.Machine, o operation.Outcome, cause *error)

	observe Observe
	now     func() time.Duration

	queued     atomic.Int64 // callbacks that wait in shards' queues, see Shard.Queue
	stale      atomic.Int64 // watches that Unlink has left to Purge, over all shards
	staleLimit int64

	signalled []atomic.Uint64 // bit i%64 of word i/64: shards[i] has signalled keys
}

// Config is what New needs.
type Config[K comparable] struct {
	Shards     int // a power of two
	StaleLimit int // most watches that may be left to Purge at any moment
	// End ends an operation that the caller holds; s is the shard of its first key.
	End func(s *Shard[K], m *operation.Machine, o operation.Outcome, cause *error)

	Observe Observe
	Now     func() time.Duration // the clock of the operations' start and deadline
}

// DefaultShards is 32 for each processor, a power of two, from 64 to 1024.
func DefaultShards() int {
	n := min(max(32*runtime.GOMAXPROCS(0), 64), 1024)
	return 1 << bits.Len(uint(n-1))
}

// New returns an empty map.
func New[K comparable](c Config[K]) *Watchers[K] {
	w := &Watchers[K]{
		seed:       maphash.MakeSeed(),
		shards:     make([]Shard[K], c.Shards),
		mask:       uint64(c.Shards - 1),
		end:        c.End,
		observe:    c.Observe,
		now:        c.Now,
		staleLimit: int64(c.StaleLimit),
		signalled:  make([]atomic.Uint64, (c.Shards+63)/64),
	}
	for i := range w.shards {
		w.shards[i].init(w, i)
	}
	return w
}

// Hash returns key's hash. It panics, as a map would, if key holds something in
// an interface that cannot be compared.
func (w *Watchers[K]) Hash(key K) uint64 { return maphash.Comparable(w.seed, key) }

// Shard returns the shard of the keys with this hash.
func (w *Watchers[K]) Shard(hash uint64) *Shard[K] { return &w.shards[hash&w.mask] }

// Shards returns all shards.
func (w *Watchers[K]) Shards() []Shard[K] { return w.shards }

// KeyOf returns a key of m, which the caller holds, with its hash: the first under
// which m can be found. Under a NaN it cannot.
func KeyOf[K comparable](m *operation.Machine) (key K, hash uint64) {
	for w := range m.Watches() {
		l := w.List().Home().(*keyList[K])
		if key, hash = l.key, l.hash; equal(key, key) {
			break
		}
	}
	return key, hash
}

func equal[K comparable](a, b K) bool { return a == b }
