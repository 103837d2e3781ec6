package watchers

import (
	"hash/maphash"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
)

const (
	everyPosition = math.MaxInt64
	groupSize     = len(machine.Group{})
)

// ended is a number of operations for each outcome.
type ended = [machine.NumOutcomes]int64

var seed = maphash.MakeSeed()

// Hash is what a purgatory does with a key.
func (w *Watchers[K]) Hash(key K) uint64 { return maphash.Comparable(seed, key) }

// at is key, with a position.
func (w *Watchers[K]) at(key K, position int64) Wait[K] { return Wait[K]{key, position, w.Hash(key)} }

// waiter is an operation that is not in a purgatory.
type waiter struct{ machine.Core }

func (*waiter) TryComplete() bool { return false }
func (*waiter) OnComplete()       {}
func (*waiter) OnExpiration()     {}

// newMap returns a map of eight shards.
func newMap(staleLimit int) *Watchers[int] {
	return New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 8, StaleLimit: staleLimit})
}

// newOp returns a new operation, which the caller holds.
func newOp() *machine.Machine {
	op := &waiter{}
	m := machine.Of(op)
	m.Begin(op, 1)
	return m
}

// waitAt links a new operation under key at a position. It returns the operation, which
// the caller holds.
func waitAt(t testing.TB, w *Watchers[int], key int, position int64) *machine.Machine {
	t.Helper()
	return link(t, w, w.at(key, position))
}

// wait links a new operation under keys. It returns the operation, which the caller holds.
func wait(t testing.TB, w *Watchers[int], keys ...int) *machine.Machine {
	t.Helper()
	var waits []Wait[int]
	for _, key := range keys {
		waits = append(waits, w.at(key, anyPosition))
	}
	return link(t, w, waits...)
}

// link links a new operation.
func link(t testing.TB, w *Watchers[int], waits ...Wait[int]) *machine.Machine {
	t.Helper()
	m := newOp()
	for i := range waits {
		require.True(t, w.Watch(m, &waits[i]))
	}
	return m
}

// end ends machines, which the caller holds, as satisfied in the shard of key.
func end(w *Watchers[int], key int, machines ...*machine.Machine) {
	s := w.shard(w.Hash(key))
	s.lock()
	s.leaveLocked(machines)
	s.mu.Unlock()
	leaveOthers[int](machines, true)
	settle(machines...)
}

// settle is what an ending does with operations that have left their lists.
func settle(machines ...*machine.Machine) {
	for _, m := range machines {
		m.Settle(nil)
	}
}

// ending makes m, which the caller holds, end as o.
func ending(m *machine.Machine, o machine.Outcome) *machine.Machine {
	m.Release(false)
	m.Claim(o, 1)
	return m
}

// keysOf returns n keys, the i-th of which is in the i-th shard.
func keysOf(w *Watchers[int], n int) (keys []int) {
	for key := 0; len(keys) < n; key++ {
		if int(w.Hash(key)%uint64(len(w.slots))) == len(keys) {
			keys = append(keys, key)
		}
	}
	return keys
}

func twoKeys(w *Watchers[int]) (a, b int) {
	keys := keysOf(w, 2)
	return keys[0], keys[1]
}

func totals(w *Watchers[int]) Totals[int] { return w.Totals(0) }

// start is a clock that does not move.
func start() time.Duration { return 0 }

func unanswered(w *Watchers[int]) int { return int(totals(w).Unanswered) }

// exit ends a visit, when the callbacks of so many operations have run.
func exit(v *Visit[int], answered int) {
	for range answered {
		v.Answered()
	}
	v.Exit()
}

// inside returns how many goroutines are inside of shards.
func inside(w *Watchers[int]) int { return totals(w).Inside }

// index returns a hash of the keys of s.
func (s *shard[K]) index() uint64 {
	for i := range s.all.slots {
		if s.all.slots[i].Load() == s {
			return uint64(i)
		}
	}
	panic("a shard of another map")
}

// pass has an operation that need not wait end, and reports whether it may.
func pass(s *shard[int]) (ok bool) {
	v := s.all.Enter(Wait[int]{Hash: s.index()}, newOp(), true)
	if v != nil {
		exit(v, 1)
	}
	return v != nil
}

// operationsOf returns the operations of key.
func operationsOf(w *Watchers[int], key int) (machines []*machine.Machine) {
	for f := range w.Each(100) {
		if f.Key == key {
			machines = append(machines, f.Machine)
		}
	}
	return machines
}

// begin begins a walk over key, which reads up to size operations at a time, at most groupSize.
func begin(w *Watchers[int], walk **Visit[int], key int, upTo int64, size int) []*machine.Machine {
	w.group = size
	*walk, _ = w.Ask(w.at(key, upTo), true)
	return group(*walk)
}

// take takes a key out of the queue, and begins a walk.
func take(w *Watchers[int], walk **Visit[int]) (_ []*machine.Machine, found bool) {
	w.group = groupSize
	*walk, found = w.Take()
	return group(*walk), found
}

// group returns what a walk, which may be nil, is to try.
func group(walk *Visit[int]) []*machine.Machine {
	if walk == nil {
		return nil
	}
	return slices.Clone(walk.Group[:walk.N])
}

// next goes on with a walk, none of whose operations ends.
func next(walk **Visit[int], size int) []*machine.Machine {
	(*walk).shard.all.group = size
	(*walk).Next(nil, 0, false)
	return group(*walk)
}

// rest returns what a walk still visits.
func rest(walk **Visit[int], size int) (visited []*machine.Machine) {
	for out := next(walk, size); len(out) > 0; out = next(walk, size) {
		visited = append(visited, out...)
	}
	return visited
}

// visit returns what a walk over key visits.
func visit(w *Watchers[int], key int, upTo int64, size int) (visited []*machine.Machine) {
	var walk *Visit[int]
	visited = begin(w, &walk, key, upTo, size)
	if walk != nil {
		visited = append(visited, rest(&walk, size)...)
		walk.Resume()
	}
	return visited
}

// same requires that both have the very same operations: two that differ may be equal for package assert.
func same(t testing.TB, want, got []*machine.Machine, what ...any) {
	t.Helper()
	require.True(t, slices.Equal(want, got), what...)
}

func list(machines ...*machine.Machine) []*machine.Machine { return machines }
