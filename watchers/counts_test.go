package watchers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/stats"
)

// The times of a map are those of its operations, each counted once, whatever its keys are.
func TestTimesAreThoseOfTheOperations(t *testing.T) {
	var now time.Duration
	w := New(Config[int]{Kick: func() {}, Shards: 8, Observe: stats.Config{Times: true, Now: func() time.Duration { return now }}})
	times := func() *stats.Times {
		total := Totals{Times: stats.NewTimes()}
		for s := range w.Shards() {
			s.Totals(&total)
		}
		return total.Times
	}
	a, b := twoKeys(w)
	now = time.Second
	first := startedAt(t, w, now, a, b)
	now = 3 * time.Second
	second := startedAt(t, w, now, b)
	require.True(t, w.Shard(w.Hash(a)).Pass(machine.Satisfied), "one that does not wait")
	now = 4 * time.Second
	sum := times()
	assert.InDelta(t, 3*time.Second, sum.OldestAge, float64(time.Second/4))
	assert.EqualValues(t, 2, sum.Ages.Count())
	now = 5 * time.Second
	end(w, b, first)
	sum = times()
	assert.InDelta(t, 2*time.Second, sum.OldestAge, float64(time.Second/4))
	assert.EqualValues(t, 1, sum.Ages.Count(), "the first, which was counted under its key a, is gone")
	end(w, b, second)
	sum = times()
	assert.Zero(t, sum.OldestAge)
	assert.Zero(t, sum.Ages.Count())
	assert.EqualValues(t, 2, sum.Waited[machine.Forced].Count())
	assert.InDelta(t, 6, sum.Waited[machine.Forced].Sum, 0.001, "4 s and 2 s")
	assert.EqualValues(t, 1, sum.Waited[machine.Satisfied].Count(), "it has waited for no time")
	assert.Zero(t, sum.Waited[machine.Satisfied].Sum)
	assert.Zero(t, sum.Late.Count())
}

// startedAt links a new operation that starts at a time under keys.
func startedAt(t *testing.T, w *Watchers[int], start time.Duration, keys ...int) *machine.Machine {
	t.Helper()
	op := &waiter{}
	m := machine.Of(op)
	require.True(t, machine.Of(op).Begin(op, len(keys), 1))
	m.SetStart(start)
	for i, key := range keys {
		require.Zero(t, w.Shard(w.Hash(key)).Watch(m, i, &Wait[int]{key, AnyPosition, w.Hash(key)}))
	}
	return m
}

// Tries are counted for their key.
func TestAKeysTriesAreCounted(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 1, Observe: stats.Config{Keys: 64, Now: func() time.Duration { return 0 }}})
	s := w.Shard(0)
	wait(t, w, 1)
	m := waitAt(t, w, 2, 5)
	wait(t, w, 2)
	s.Tried(1, w.Hash(1), 7, 5)
	s.Tried(1, w.Hash(1), 1, 0)
	s.Leave([]*machine.Machine{m}, []machine.Outcome{machine.Expired}, make([]int, 1))
	require.True(t, s.mu.TryLock(), "it releases the lock")
	s.unlock()
	hot, expiring := s.Keys(nil, nil)
	got := map[int]stats.KeyCounts[int]{}
	for _, counts := range hot {
		got[counts.Key] = counts
	}
	require.Len(t, got, 2)
	assert.Equal(t, []int64{8, 5}, []int64{got[1].Tries, got[1].Wasted})
	assert.Equal(t, []int64{0, 0}, []int64{got[2].Tries, got[2].Wasted})
	assert.Equal(t, []int{1, 1}, []int{got[1].Waiting, got[2].Waiting})
	require.Len(t, expiring, 1)
	assert.Equal(t, []any{2, 1}, []any{expiring[0].Key, expiring[0].Waiting})
}

func TestTotalsAreSumsOfShardsThatDiffer(t *testing.T) {
	w := newMap(0)
	a, b := twoKeys(w)
	wait(t, w, a)
	wait(t, w, a)
	wait(t, w, b)
	for key, n := range map[int]int64{a: 3, b: 5} {
		s, hash := w.Shard(w.Hash(key)), w.Hash(key)
		for range n {
			s.Signal(key, hash, EveryPosition, false)
			s.Met()
		}
		s.Tried(key, hash, 10*n, n)
	}
	w.Shard(w.Hash(a)).Signal(-1, w.Hash(a), EveryPosition, false) // nobody waits for it
	var total Totals
	for s := range w.Shards() {
		s.Totals(&total)
	}
	want := Totals{Accepted: 3, Keys: 2, Watched: 3, Met: 8, Checks: 80, Wasted: 8, Signals: 9}
	assert.Equal(t, want, total)
}

// A shard for which no operation has waited yet has no keys to walk over.
func TestAnUnusedShardHasNoKeys(t *testing.T) {
	s := newMap(0).Shard(0)
	require.True(t, s.Pass(machine.Satisfied))
	keys, next := s.someKeys(0, 1, nil)
	assert.Empty(t, keys)
	assert.Zero(t, next)
	assert.Empty(t, s.Sample(nil, 10, 0))
}
