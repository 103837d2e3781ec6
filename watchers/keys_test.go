package watchers

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
)

// Each yields the keys of every shard once, while other goroutines may take each lock, and stops
// when the loop does.
func TestEachYieldsEachKeyOnceWithNoLockHeld(t *testing.T) {
	w := New[int](Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 4})
	const keys = 3000
	for key := range keys {
		waitAt(t, w, key, anyPosition)
	}
	found := map[int]uint64{}
	for k := range w.Each(0) {
		for s := range w.shards() {
			require.True(t, s.mu.TryLock())
			s.mu.Unlock()
		}
		require.NotContains(t, found, k.Key)
		found[k.Key] = k.Hash
	}
	assert.Len(t, found, keys)
	for key, hash := range found {
		require.Equal(t, w.Hash(key), hash)
	}
	n := 0
	for range w.Each(0) {
		if n++; n == 200 {
			break
		}
	}
	assert.Equal(t, 200, n)
}

// Of each key it yields the first operations, neither marks nor those that have ended and are stale.
func TestEachYieldsTheFirstOfEachKey(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	ended := wait(t, w, a, b)
	waits := list(wait(t, w, b), waitAt(t, w, b, 5), waitAt(t, w, b, 6)) // a mark stands before the second
	other := wait(t, w, a)
	s := w.shard(w.Hash(b))
	s.lock()
	end(w, a, ended)
	s.mu.Unlock()
	require.Equal(t, 1, int(w.stale.Load()))
	same(t, waits, operationsOf(w, b))
	found := map[int]int{}
	for f := range w.Each(2) {
		found[f.Key]++
		assert.Equal(t, map[int]int{a: 1, b: 3}[f.Key], f.Waiting)
	}
	assert.Equal(t, map[int]int{a: 1, b: 2}, found)
	same(t, list(other), operationsOf(w, a))
}

func TestWaitingIsHowManyWait(t *testing.T) {
	w := newMap(0)
	hash := w.Hash(1)
	assert.Zero(t, w.Waiting(w.at(1, 0)), "no shard is made for that")
	require.Nil(t, w.used(hash))
	first, second := wait(t, w, 1), waitAt(t, w, 1, 5)
	assert.Equal(t, 2, w.Waiting(w.at(1, 0)))
	assert.Zero(t, w.Waiting(w.at(2, 0)))
	end(w, 1, first)
	assert.Equal(t, 1, w.Waiting(w.at(1, 0)), "one waits for a position")
	end(w, 1, second)
	assert.Zero(t, w.Waiting(w.at(1, 0)))
}

func TestTheKeysOfAnOperation(t *testing.T) {
	w := newMap(0)
	for _, keys := range [][]int{{1}, {1, 2}, {2, 2, 3}, {3, 1}} {
		m := wait(t, w, keys...)
		var waits []Wait[int]
		for _, key := range keys {
			waits = append(waits, w.at(key, anyPosition))
		}
		assert.ElementsMatch(t, waits, Waits[int](m))
	}
}

// The timer ends operations by the function of the map's configuration.
func TestAnExpiryCallsTheMapsFunction(t *testing.T) {
	var ended []*machine.Machine
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 8, End: func(m *machine.Machine) { ended = append(ended, m) }})
	pending, held := wait(t, w, 1, 2), wait(t, w, 2)
	pending.Release(false)
	entry.Expire(pending.Entry())
	entry.Expire(held.Entry())
	same(t, list(pending), ended)
	assert.Equal(t, machine.Expired, pending.EndsAs())
	wish, _ := held.Release(false)
	assert.True(t, wish)
}

// There are 32 shards for each processor, rounded up to a power of two, from 64 to 4096.
func TestDefaultShards(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for processors, shards := range map[int]int{1: 64, 2: 64, 3: 128, 4: 128, 5: 256, 32: 1024, 100: 4096, 256: 4096} {
		runtime.GOMAXPROCS(processors)
		assert.Len(t, New(Config[int]{}).slots, shards, "%d processors", processors)
	}
}
