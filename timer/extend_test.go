package timer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An entry in a bucket of the lowest level is not placed again before it is due, so the
// worker that claims it has to see the later deadline. An entry of a higher level is placed
// again by the later deadline.
func TestAnExtendedEntryIsNotEarlyAtAnyLevel(t *testing.T) {
	for _, first := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 63 * time.Millisecond, 64 * time.Millisecond, time.Second, time.Hour} {
		for _, longer := range []time.Duration{time.Millisecond, 3 * time.Millisecond, 100 * time.Millisecond, time.Minute} {
			t.Run(first.String()+" and "+longer.String(), func(t *testing.T) {
				m := newManual(t)
				var at time.Duration
				h, err := m.AfterFunc(first, func() { at = m.Now() })
				require.NoError(t, err)
				require.True(t, h.Extend(first+longer))
				m.AdvanceClock(first + longer - 1)
				assert.Zero(t, at, "early")
				assert.Equal(t, 1, m.Pending())
				m.AdvanceClock(1)
				assert.Equal(t, first+longer, at)
			})
		}
	}
}

// An entry with a deadline of 0 is due while the clock reads 0, although 0 in an entry means
// that it was never added.
func TestExtendToZeroMakesAnEntryDue(t *testing.T) {
	m := newManual(t, WithTick(time.Hour))
	h, err := m.AfterFunc(24*time.Hour, func() {})
	require.NoError(t, err)
	require.True(t, h.Extend(0))
	require.True(t, m.AdvanceClock(0))
	assert.Equal(t, "expired", stateOf(h))
}

func TestAnEntryExtendedToNowIsDueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSystem(t, WithTick(time.Hour))
		e := newTask(nil)
		addIn(t, s, e, 10*time.Hour)
		require.True(t, s.Extend(&e.TaskEntry, s.Now()))
		synctest.Wait()
		assert.EqualValues(t, 1, e.runs.Load(), "not an hour later")
	})
}

// An extension by a tick or more is written to the entry only; the entry stays in its slot.
func TestALaterDeadlineLeavesTheEntryInItsSlot(t *testing.T) {
	m := newManual(t)
	e := newTask(nil)
	addIn(t, m, e, 10*ms)
	require.True(t, m.Extend(&e.TaskEntry, 11*ms))
	slots := m.shard(0).mu.wheel.levels[0].buckets
	assert.Len(t, listOf(t, &slots[10]), 1)
	require.True(t, m.Extend(&e.TaskEntry, 12*ms-1))
	assert.Len(t, listOf(t, &slots[12]), 1, "later by less than a tick")
	m.AdvanceClock(12*ms - 1)
	assert.Zero(t, e.runs.Load(), "early")
	m.AdvanceClock(1)
	assert.EqualValues(t, 1, e.runs.Load())
}

// The deadline has passed, its tick has not come, and Extend moves it to now.
func TestAnEntryExtendedToNowWithinItsTickIsDueAtOnce(t *testing.T) {
	m := newManual(t, WithTick(20*time.Millisecond))
	e := newTask(nil)
	addIn(t, m, e, 5*time.Millisecond)
	m.AdvanceClock(10 * time.Millisecond)
	require.Zero(t, e.runs.Load(), "its tick is at 20 ms")
	require.True(t, m.Extend(&e.TaskEntry, m.Now()))
	assert.True(t, m.AdvanceClock(0))
	assert.EqualValues(t, 1, e.runs.Load())
}

// Entries whose bucket has expired wait for a worker. One that is extended then has not expired.
func TestAnExtendedEntryIsNotDue(t *testing.T) {
	m := newManual(t)
	entries := []*testTask{newTask(nil), newTask(nil), newTask(nil)}
	for _, e := range entries {
		addIn(t, m, e, 0)
	}
	m.now.Store(int64(time.Second))
	n, oldest := m.Due()
	assert.Equal(t, 3, n)
	assert.Equal(t, time.Second-1, oldest)
	require.True(t, m.Extend(&entries[0].TaskEntry, time.Minute))
	require.True(t, m.Extend(&entries[2].TaskEntry, time.Minute))
	n, oldest = m.Due()
	assert.Equal(t, 1, n)
	assert.Equal(t, time.Second-1, oldest)
}
