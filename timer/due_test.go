package timer

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func addEntries(t *testing.T, m *ManualTimer, n int, deadline time.Duration) {
	t.Helper()
	for range n {
		require.NoError(t, m.AddAt(&newBenchTask().TaskEntry, m.Now(), deadline))
	}
}

// At time 0, too, an entry is due whose deadline had passed when it was added.
func TestDueCountsWhatWasDueWhenItWasAdded(t *testing.T) {
	for _, deadline := range []time.Duration{0, -1, -time.Hour} {
		m, err := NewManualTimer()
		require.NoError(t, err)
		addEntries(t, m, 1, deadline)
		n, _ := m.Due()
		assert.Equal(t, 1, n, "deadline %v", deadline)
	}
	// Of several, in two shards, the oldest may be any.
	m := newManual(t, WithShards(2))
	m.AdvanceClock(10 * time.Second)
	for i, late := range []time.Duration{2, 7, 3, 1, 4, 2} {
		tt := newTask(nil)
		tt.inShard(i / 3)
		require.NoError(t, m.AddAt(&tt.TaskEntry, m.Now(), m.Now()-late*time.Second))
		n, oldest := m.Due()
		assert.Equal(t, i+1, n)
		assert.Equal(t, []time.Duration{2, 7, 7, 7, 7, 7}[i]*time.Second, oldest)
	}
	m.Stop()
	n, oldest := m.Due()
	assert.Equal(t, []time.Duration{0, 0}, []time.Duration{time.Duration(n), oldest})
}

// Stop goes once through the buckets of a wheel, also of a big one.
func BenchmarkStopOfABigWheel(b *testing.B) {
	for _, n := range []int{1 << 14, 1 << 16, 1 << 18} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				m, _ := NewManualTimer(WithShards(1), WithWheelSize(n))
				for i := range n - 1 {
					_ = m.AddAt(&newBenchTask().TaskEntry, 0, time.Duration(i+1)*ms)
				}
				b.StartTimer()
				if left := len(m.Stop()); left != n-1 {
					b.Fatal(left)
				}
			}
		})
	}
}

// Due looks at 128 entries of a shard at most.
func TestDueHasItsBound(t *testing.T) {
	for _, n := range []int{chunk - 1, chunk, chunk + 1, 2 * chunk} {
		m := newManual(t)
		for range n {
			addIn(t, m, newTask(nil), 0)
		}
		due, _ := m.Due()
		assert.Equal(t, min(n, 128), due)
		m.AdvanceClock(0)
		due, _ = m.Due()
		assert.Zero(t, due)
	}
}
