package watchers

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// A pass over all keys releases a shard's lock after about as many keys as it was asked for.
func TestAPassOverAllKeysGoesInParts(t *testing.T) {
	const keys, part, most = 4000, 8, 40 // most: the last bucket may hold some keys more
	w := New[int](Config[int]{Kick: func() {}, Shards: 1})
	for key := range keys {
		waitAt(t, w, key, AnyPosition)
	}
	total := 0
	var at progress
	for more := true; more; more = at != 0 {
		var found []Key[int]
		found, at = w.Shard(0).someKeys(at, part, nil)
		require.LessOrEqual(t, len(found), most)
		total += len(found)
	}
	assert.Equal(t, keys, total)
}

// A part of a pass ends as soon as it has its keys: with the bucket of the last of them.
func TestAPartOfAPassOverAllKeysIsNoLongerThanItNeedsToBe(t *testing.T) {
	w := New[int](Config[int]{Kick: func() {}, Shards: 1})
	s := w.Shard(0)
	for key := range 500 { // so many that a bucket with one key is there for certain
		waitAt(t, w, key, AnyPosition)
	}
	found := 500
	var at progress
	for more := true; more; more = at != 0 {
		var keys []Key[int]
		if keys, at = s.someKeys(at, 1, nil); len(keys) > 0 { // else only empty buckets are left
			found = min(found, len(keys))
		}
	}
	assert.Equal(t, 1, found)
}

// AllKeys yields the keys of every shard once, while other goroutines may take each lock, and stops
// when the loop does.
func TestAllKeysYieldsEachKeyOnceWithNoLockHeld(t *testing.T) {
	w := New[int](Config[int]{Kick: func() {}, Shards: 4})
	const keys = 3000 // several parts in each shard
	for key := range keys {
		waitAt(t, w, key, AnyPosition)
	}
	found := map[int]uint64{}
	for k := range w.AllKeys() {
		for s := range w.Shards() {
			require.True(t, s.mu.TryLock())
			s.unlock()
		}
		require.NotContains(t, found, k.Key)
		found[k.Key] = k.Hash
	}
	assert.Len(t, found, keys)
	for key, hash := range found {
		require.Equal(t, w.Hash(key), hash)
	}
	n := 0
	for range w.AllKeys() {
		if n++; n == 200 {
			break
		}
	}
	assert.Equal(t, 200, n)
}

func TestAwaitedReportsWhetherOperationsWait(t *testing.T) {
	w := newMap(0)
	s, hash := w.Shard(w.Hash(1)), w.Hash(1)
	assert.False(t, s.Awaited(1, hash))
	first, second := waitAt(t, w, 1, AnyPosition), waitAt(t, w, 1, 5)
	assert.True(t, s.Awaited(1, hash))
	assert.False(t, s.Awaited(2, hash))
	end(w, 1, first)
	assert.True(t, s.Awaited(1, hash), "one waits for a position")
	end(w, 1, second)
	assert.False(t, s.Awaited(1, hash))
}

func TestTriesOfAShardAddUp(t *testing.T) {
	s := newMap(0).Shard(0)
	s.Tried(1, 1, 3, 0)
	s.Tried(1, 1, 5, 2)
	s.Tried(1, 1, 1, 1)
	var total Totals
	s.Totals(&total)
	assert.Equal(t, []int64{9, 3}, []int64{total.Checks, total.Wasted})
}

// FirstKey returns the first key, by whose hash a lookup finds it, also if it is a NaN, and Keys all of them.
func TestTheKeysOfAnOperation(t *testing.T) {
	w := New(Config[float64]{Kick: func() {}, Shards: 8})
	nan := math.NaN()
	for _, keys := range [][]float64{{1}, {1, 2}, {nan, 2, 3}, {nan, nan, 3}, {nan}, {nan, nan}} {
		op := &waiter{}
		m := machine.Of(op)
		require.True(t, machine.Of(op).Begin(op, len(keys), 1))
		var hashes []uint64
		for i, key := range keys {
			hashes = append(hashes, w.Hash(key))
			require.Zero(t, w.Shard(hashes[i]).Watch(m, i, &Wait[float64]{key, AnyPosition, hashes[i]}))
		}
		key, hash := FirstKey[float64](m)
		assert.True(t, same(keys[0], key), "%v of %v", key, keys)
		assert.Equal(t, hashes[0], hash)
		assert.True(t, w.Shard(hash).Awaited(key, hash))
		all := Keys[float64](m)
		require.Len(t, all, len(keys))
		for i := range keys {
			assert.True(t, same(keys[i], all[i]), "%v of %v", all, keys)
		}
	}
}

func same(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

func TestALoopOverShardsMayEndEarly(t *testing.T) {
	w := newMap(0)
	for i := range uint64(8) {
		w.Shard(i)
	}
	n := 0
	for range w.Shards() {
		if n++; n == 3 {
			break
		}
	}
	assert.Equal(t, 3, n)
}

// An operation that its timer or its user ends goes to the function of the map's configuration,
// with the shard of its first key.
func TestEndCallsTheMapsFunction(t *testing.T) {
	type end struct {
		s     *Shard[int]
		m     *machine.Machine
		o     machine.Outcome
		cause *error
	}
	var ends []end
	w := New(Config[int]{Kick: func() {}, Shards: 8, End: func(s *Shard[int], m *machine.Machine, o machine.Outcome, cause *error) {
		ends = append(ends, end{s, m, o, cause})
	}})
	a, b := twoKeys(w)
	first, second, cause := wait(t, w, a, b), wait(t, w, b, a), error(nil)
	first.End(machine.Expired, nil)
	second.End(machine.Cancelled, &cause)
	assert.Equal(t, []end{{w.Shard(w.Hash(a)), first, machine.Expired, nil}, {w.Shard(w.Hash(b)), second, machine.Cancelled, &cause}}, ends)
}

// There are 32 shards for each processor, rounded up to a power of two, from 64 to 4096.
func TestDefaultShards(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for processors, shards := range map[int]int{1: 64, 2: 64, 3: 128, 4: 128, 5: 256, 32: 1024, 100: 4096, 256: 4096} {
		runtime.GOMAXPROCS(processors)
		assert.Equal(t, shards, DefaultShards(), "%d processors", processors)
	}
}

// The first operation of a key stands behind markers and what has ended at most.
func TestTheFirstOfEachOfItsKeys(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	before, m, behind := wait(t, w, a, b), wait(t, w, b, a), wait(t, w, a)
	assert.Equal(t, []bool{true, false, false}, []bool{First[int](before), First[int](m), First[int](behind)})
	var c Cursor[int]
	_, more := w.Shard(w.Hash(a)).Begin(&c, a, w.Hash(a), EveryPosition, make([]*machine.Machine, 1))
	require.True(t, more, "a marker stands behind the first")
	busy := w.Shard(w.Hash(b))
	busy.mu.Lock()
	end(w, a, before)
	busy.mu.Unlock() // and nobody has looked yet whether a watch was left
	assert.Equal(t, 1, w.Stale())
	assert.Equal(t, []bool{true, false}, []bool{First[int](m), First[int](behind)})
	last := wait(t, w, b)
	assert.False(t, First[int](last))
	c.Stop()
	end(w, b, m, last)
	assert.True(t, First[int](behind))
	checkInvariants(t, w)
}
