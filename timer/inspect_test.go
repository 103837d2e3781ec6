package timer

import (
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

func TestInspectShowsEntriesWhereTheyLie(t *testing.T) {
	m, err := NewManualTimer()
	require.NoError(t, err)
	m.AdvanceClock(10 * time.Millisecond)
	addEntries(t, m, 3, 20*time.Millisecond)
	addEntries(t, m, 5, 200*time.Millisecond)
	addEntries(t, m, 1, 10*time.Millisecond) // due at once
	w := Inspect(m)
	assert.Equal(t, 9, w.Pending)
	assert.Equal(t, 1, w.Due)
	assert.Equal(t, 64, w.Size)
	require.Len(t, w.Levels, 2)
	assert.Equal(t, 10, w.Levels[0].Hand)
	assert.Equal(t, Slot{Entries: 3}, w.Levels[0].Slots[20])
	assert.Equal(t, time.Millisecond, w.Levels[0].Span)
	assert.Equal(t, Slot{Entries: 5}, w.Levels[1].Slots[200/64])
	assert.Equal(t, 64*time.Millisecond, w.Levels[1].Span)
	m.Stop()
}

func TestInspectFoldsLargeWheels(t *testing.T) {
	m, err := NewManualTimer(WithWheelSize(1000))
	require.NoError(t, err)
	addEntries(t, m, 2, 999*time.Millisecond)
	w := Inspect(m)
	require.Len(t, w.Levels[0].Slots, 63)
	assert.Equal(t, 16*time.Millisecond, w.Levels[0].Span)
	assert.Equal(t, 2, w.Levels[0].Slots[62].Entries)
	m.Stop()
}

// TestInspectCountsLittleAndEstimatesTheRest: the total is true, however few were counted.
func TestInspectCountsLittleAndEstimatesTheRest(t *testing.T) {
	m, err := NewManualTimer()
	require.NoError(t, err)
	const n = 200_000
	tasks := make([]benchTask, n)
	for i := range tasks {
		tasks[i].Bind(&tasks[i])
		require.NoError(t, m.AddAt(&tasks[i].TaskEntry, 0, time.Duration(1+i)*time.Millisecond))
	}
	w := Inspect(m)
	sum, estimated := 0, 0
	for _, l := range w.Levels {
		for _, s := range l.Slots {
			sum += s.Entries
			if s.Estimated {
				estimated++
			}
		}
	}
	assert.Equal(t, n, w.Pending)
	assert.Equal(t, n, sum+w.Due)
	assert.Positive(t, estimated, "buckets of 4,096 entries are not walked to the end")
	m.Stop()
}
