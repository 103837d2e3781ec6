package timer

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A timer makes its shards when entries come: one that is not used takes 1.4 kilobytes, with
// the pointers of 64.
func TestATimerWithoutEntriesIsSmall(t *testing.T) {
	const timers = 50
	var before, after runtime.MemStats
	goroutines := runtime.NumGoroutine()
	runtime.ReadMemStats(&before)
	for range timers {
		timer, err := NewSystemTimer(WithShards(64), WithWheelSize(1<<20))
		require.NoError(t, err)
		timer.Stop()
	}
	runtime.ReadMemStats(&after)
	assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	assert.Less(t, (after.TotalAlloc-before.TotalAlloc)/timers, uint64(1600), "with some for the options")
	assert.LessOrEqual(t, (after.Mallocs-before.Mallocs)/timers, uint64(13), "with some for the options")
}

// Every method works on a timer that has no shard yet, and makes none that the entry is not in.
func TestATimerMakesAShardForItsFirstEntry(t *testing.T) {
	m := newManual(t, WithShards(4), WithWheelSize(20))
	tt := newTask(nil)
	tt.inShard(2)
	e := &tt.TaskEntry
	made := func() (n int) {
		for range m.made {
			n++
		}
		return n
	}
	assert.Zero(t, m.Pending())
	assert.False(t, m.AdvanceClock(time.Second))
	n, oldest := m.Due()
	assert.Zero(t, n)
	assert.Zero(t, oldest)
	assert.Zero(t, made())
	assert.False(t, m.Cancel(e))
	assert.Zero(t, m.CancelAll([]*TaskEntry{e, e}))
	assert.Zero(t, m.DeadlineOf(e))

	addIn(t, m, tt, time.Second)
	assert.Equal(t, 1, made())
	assert.Equal(t, 1, m.Pending())
	other := newTask(nil)
	other.inShard(2)
	addIn(t, m, other, time.Second)
	assert.Equal(t, 1, made())
	m.from.Store(math.MaxInt32) // more looks than an int of 32 bits counts
	m.AdvanceClock(time.Second)
	assert.EqualValues(t, 1, tt.runs.Load())
	checkInvariants(t, &m.store, nil)
}

// A shard whose first entry comes after Stop is stopped too.
func TestAShardThatIsMadeAfterStopIsStopped(t *testing.T) {
	m := newManual(t, WithShards(2))
	first := newTask(nil)
	first.inShard(0)
	addIn(t, m, first, time.Second)
	assert.Equal(t, []any{first}, m.Stop())
	late := newTask(nil)
	late.inShard(1)
	require.ErrorIs(t, m.AddAt(&late.TaskEntry, 0, time.Second), ErrStopped)
	assert.Zero(t, m.Pending())
	assert.Empty(t, m.Stop())
}
