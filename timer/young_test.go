package timer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// An entry that is far from due is in no wheel until the clock comes by.
func TestTheYoungArePlacedWhenTheClockComesBy(t *testing.T) {
	m := newManual(t)
	placed := func() (entries int) {
		for _, l := range Inspect(m).Levels {
			for _, slot := range l.Slots {
				entries += slot.Entries
			}
		}
		return entries
	}
	near, far := newTask(nil), newTask(nil)
	addIn(t, m, near, farTicks*ms)
	assert.Equal(t, 1, placed())
	addIn(t, m, far, farTicks*ms+1)
	assert.Equal(t, 1, placed())
	assert.Equal(t, Slot{Entries: 1}, Inspect(m).Young)
	assert.Equal(t, 2, m.Pending())
	m.AdvanceClock((youngTicks - 1) * ms)
	assert.Equal(t, 1, placed())
	m.AdvanceClock(ms)
	assert.Equal(t, 2, placed())
	assert.Zero(t, Inspect(m).Young)
	checkInvariants(t, &m.store, nil)

	m.AdvanceClock((farTicks - youngTicks) * ms)
	assert.EqualValues(t, 1, near.runs.Load())
	assert.Zero(t, far.runs.Load(), "early")
	m.AdvanceClock(ms)
	assert.EqualValues(t, 1, far.runs.Load())
}

// Whoever comes after the others were cancelled is placed too, whenever that is.
func TestTheYoungArePlacedInTime(t *testing.T) {
	for _, pause := range []time.Duration{0, ms, 500 * ms, (youngTicks - 1) * ms, youngTicks * ms, 2 * time.Second, time.Hour} {
		m := newManual(t, WithShards(4))
		var entries []*TaskEntry
		for i := range 8 {
			tt := newTask(nil)
			tt.where = uint32(i)
			addIn(t, m, tt, time.Minute)
			entries = append(entries, &tt.TaskEntry)
		}
		assert.True(t, m.Cancel(entries[0]))
		assert.Equal(t, 7, m.CancelAll(entries))
		m.AdvanceClock(pause)
		checkInvariants(t, &m.store, nil)

		start := m.Now()
		for i := range 8 {
			timeout := farTicks*ms + 1 + time.Duration(i)*time.Second
			var at time.Duration
			tt := newTask(func() { at = m.Now() })
			tt.where = uint32(i)
			addIn(t, m, tt, timeout)
			defer func() {
				assert.Equal(t, start+time.Duration(m.tick)*(timeout/ms+1), at, "after %s, in %s", pause, timeout)
			}()
			checkInvariants(t, &m.store, nil)
		}
		m.AdvanceClock(youngTicks * ms)
		assert.Len(t, Inspect(m).Levels, 3, "placed no higher than a minute needs")
		m.AdvanceClock(time.Minute)
		checkInvariants(t, &m.store, nil)
	}
}

// A clock that comes very late finds them due, and places nothing in its past.
func TestTheYoungAfterAStall(t *testing.T) {
	m := newManual(t)
	due, left := newTask(nil), newTask(nil)
	addIn(t, m, due, 10*time.Second)
	addIn(t, m, left, 2*time.Hour)
	m.mu.now, m.mu.target = time.Hour, time.Hour
	assert.True(t, m.AdvanceClock(0))
	assert.EqualValues(t, 1, due.runs.Load())
	assert.Zero(t, left.runs.Load())
	checkInvariants(t, &m.store, nil)
	assert.Len(t, listOf(t, &m.shards[0].mu.young), 0)
	m.AdvanceClock(time.Hour - 1)
	assert.Zero(t, left.runs.Load())
	m.AdvanceClock(1)
	assert.EqualValues(t, 1, left.runs.Load())
}

func TestTheYoungCanBeExtendedAndStopped(t *testing.T) {
	m := newManual(t)
	var earlier, later, stopped *testTask
	for _, tt := range []**testTask{&earlier, &later, &stopped} {
		*tt = newTask(nil)
		addIn(t, m, *tt, time.Minute)
	}
	require.True(t, m.Extend(&earlier.TaskEntry, 10*ms))
	require.True(t, m.Extend(&later.TaskEntry, 2*time.Minute))
	assert.Equal(t, Slot{Entries: 2}, Inspect(m).Young)
	m.AdvanceClock(10 * ms)
	assert.EqualValues(t, 1, earlier.runs.Load())
	assert.Equal(t, Slot{Entries: 2}, Inspect(m).Young)
	m.AdvanceClock(2*time.Minute - 11*ms)
	assert.Zero(t, later.runs.Load(), "early")
	assert.EqualValues(t, 1, stopped.runs.Load())
	addIn(t, m, stopped, time.Minute)
	assert.ElementsMatch(t, []Task{later, stopped}, m.Stop())
	assert.Zero(t, m.Pending())
	checkInvariants(t, &m.store, nil)
}

// Many young entries are placed over many ticks: who is due meanwhile does not wait for them.
func TestManyYoungArePlacedInShares(t *testing.T) {
	m := newManual(t)
	s := &m.shards[0]
	addEntries(t, m, 2*youngShare+1, time.Minute)
	for flushes := range 3 {
		for holds := 0; s.flushLocked(int64(youngTicks + flushes)); holds++ {
			require.LessOrEqual(t, holds, youngShare/chunk+1)
			require.Equal(t, 2*youngShare+1, m.Pending())
		}
		assert.Len(t, listOf(t, &s.mu.young), max(0, 2*youngShare+1-(flushes+1)*youngShare))
		checkInvariants(t, &m.store, nil)
	}
	assert.EqualValues(t, never, s.mu.youngAt)
	m.Stop()
}

// More than there is time for, in shares, are placed all at once when it is up.
func TestTooManyYoungArePlacedInTime(t *testing.T) {
	m := newManual(t)
	s := &m.shards[0]
	addEntries(t, m, 5*youngShare, time.Minute)
	late := newTask(nil)
	addIn(t, m, late, farTicks*ms+1)
	for s.flushLocked(youngTicks) {
	}
	assert.Len(t, listOf(t, &s.mu.young), 4*youngShare+1)
	for s.flushLocked(3*youngTicks - 1) {
	}
	assert.Len(t, listOf(t, &s.mu.young), 3*youngShare+1)
	for s.flushLocked(3 * youngTicks) {
	}
	assert.Empty(t, listOf(t, &s.mu.young))
	checkInvariants(t, &m.store, nil)
	m.AdvanceClock((farTicks + 1) * ms)
	assert.EqualValues(t, 1, late.runs.Load())
	m.Stop()
}

// Shards' young are not all placed at once, and a driver that nobody needs sleeps on.
func TestTheDriverComesByForTheYoungOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 16
		timer, readings := newCounted(t, WithShards(shards))
		at := map[int64]bool{}
		var entries []*TaskEntry
		for i := range shards {
			tt := newTask(nil)
			tt.where = uint32(i)
			addIn(t, timer, tt, time.Minute)
			entries = append(entries, &tt.TaskEntry)
			at[timer.shards[i].mu.youngAt] = true
		}
		assert.Len(t, at, shards)
		settle(2 * time.Second)
		assert.Zero(t, Inspect(timer).Young)
		assert.Equal(t, shards, timer.CancelAll(entries))
		settle(time.Minute) // buckets that became empty wake it once
		readings.Store(0)
		settle(time.Hour)
		assert.LessOrEqual(t, readings.Load(), int64(4), "nothing is young, nothing is pending")
		assert.True(t, timer.Idle())

		for range 1000 { // whoever comes and goes costs a wake-up each second and shard
			tt := newTask(nil)
			addIn(t, timer, tt, time.Minute)
			timer.Cancel(&tt.TaskEntry)
		}
		synctest.Wait()
		readings.Store(0)
		settle(time.Hour)
		assert.LessOrEqual(t, readings.Load(), int64(4*(shards+1)))
	})
}
