package timer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	ms       = time.Millisecond
	far      = 4 * time.Second
	youngFor = far / 4 // an entry is young for that long at most
)

// A young entry is in no bucket until the clock reaches youngAt.
func TestYoungEntriesArePlacedWhenTheirTimeComes(t *testing.T) {
	m := newManual(t)
	near, young := newTask(nil), newTask(nil)
	addIn(t, m, near, far)
	addIn(t, m, young, far+1)
	assert.Equal(t, 1, youngOf(t, &m.store))
	assert.Equal(t, 2, m.Pending())
	m.AdvanceClock(youngFor - ms)
	assert.Equal(t, 1, youngOf(t, &m.store))
	m.AdvanceClock(ms)
	assert.Zero(t, youngOf(t, &m.store))
	checkInvariants(t, &m.store, nil)

	m.AdvanceClock(far - youngFor)
	assert.EqualValues(t, 1, near.runs.Load())
	assert.Zero(t, young.runs.Load(), "early")
	m.AdvanceClock(ms)
	assert.EqualValues(t, 1, young.runs.Load())
}

// A young entry that is added after all others were cancelled is placed in time, however long
// after.
func TestYoungEntriesArePlacedInTime(t *testing.T) {
	for _, pause := range []time.Duration{0, ms, 500 * ms, youngFor - ms, youngFor, 2 * youngFor, time.Hour} {
		m := newManual(t, WithShards(4))
		var entries []*TaskEntry
		for i := range 8 {
			tt := newTask(nil)
			tt.inShard(i)
			addIn(t, m, tt, time.Minute)
			entries = append(entries, &tt.TaskEntry)
		}
		assert.True(t, m.Cancel(entries[0]))
		assert.Equal(t, 7, m.CancelAll(entries))
		m.AdvanceClock(pause)
		checkInvariants(t, &m.store, nil)

		start := m.Now()
		for i := range 8 {
			timeout := far + 1 + time.Duration(i)*time.Second
			var at time.Duration
			tt := newTask(func() { at = m.Now() })
			tt.inShard(i)
			addIn(t, m, tt, timeout)
			defer func() { assert.Equal(t, start+timeout-1+ms, at, "after %s, in %s", pause, timeout) }()
			checkInvariants(t, &m.store, nil)
		}
		m.AdvanceClock(youngFor)
		assert.LessOrEqual(t, len(placed(t, &m.store)), 4, "placed no higher than a minute needs")
		m.AdvanceClock(time.Minute)
		checkInvariants(t, &m.store, nil)
	}
}

// A flush that comes very late makes overdue young entries due, and places the others in
// buckets that have not expired.
func TestAfterAStallYoungEntriesAreDueOrPlaced(t *testing.T) {
	m := newManual(t)
	due, left := newTask(nil), newTask(nil)
	addIn(t, m, due, 10*time.Second)
	addIn(t, m, left, 2*time.Hour)
	m.setClock(time.Hour)
	assert.True(t, m.AdvanceClock(0))
	assert.EqualValues(t, 1, due.runs.Load())
	assert.Zero(t, left.runs.Load())
	checkInvariants(t, &m.store, nil)
	assert.Empty(t, listOf(t, &m.shard(0).mu.young))
	m.AdvanceClock(time.Hour - 1)
	assert.Zero(t, left.runs.Load())
	m.AdvanceClock(1)
	assert.EqualValues(t, 1, left.runs.Load())
}

// The goroutine that adds an entry may have read the clock long ago, because a TryComplete
// took that long or the machine was suspended. An entry that is young by that reading may be
// due soon; it must not be late because of that.
func TestAnOldNowMakesNoYoungEntryLate(t *testing.T) {
	for _, hasYoung := range []bool{false, true} {
		for _, age := range []time.Duration{ms, 900 * ms, 1500 * ms, 2500 * ms, 4 * time.Second, far + 100*ms, time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				timer := newSystem(t, WithShards(1))
				now := timer.Now()
				time.Sleep(age)
				if hasYoung {
					addIn(t, timer, newTask(nil), time.Hour)
				}
				var at time.Duration
				tt := newTask(func() { at = timer.Now() })
				deadline := now + far + 200*ms
				require.NoError(t, timer.AddAt(&tt.TaskEntry, now, deadline))
				synctest.Wait() // a worker may have it already
				checkInvariants(t, &timer.store, nil)
				settle(time.Hour)
				assert.GreaterOrEqual(t, at, deadline)
				assert.LessOrEqual(t, at, max(deadline, now+age)+ms, "%s old, another entry is young: %t", age, hasYoung)
			})
		}
	}
}

func TestYoungEntriesCanBeExtendedAndStopped(t *testing.T) {
	m := newManual(t)
	var earlier, later, stopped *testTask
	for _, tt := range []**testTask{&earlier, &later, &stopped} {
		*tt = newTask(nil)
		addIn(t, m, *tt, time.Minute)
	}
	require.True(t, m.Extend(&earlier.TaskEntry, 10*ms))
	require.True(t, m.Extend(&later.TaskEntry, 2*time.Minute))
	assert.Equal(t, 2, youngOf(t, &m.store))
	m.AdvanceClock(10 * ms)
	assert.EqualValues(t, 1, earlier.runs.Load())
	assert.Equal(t, 2, youngOf(t, &m.store))
	m.AdvanceClock(2*time.Minute - 11*ms)
	assert.Zero(t, later.runs.Load(), "early")
	assert.EqualValues(t, 1, stopped.runs.Load())
	addIn(t, m, stopped, time.Minute)
	assert.ElementsMatch(t, []any{later, stopped}, m.Stop())
	assert.Zero(t, m.Pending())
	checkInvariants(t, &m.store, nil)
}

// An entry whose deadline is moved to the past is due, however long ago the wheel was moved.
func TestAnEntryExtendedToThePastIsDue(t *testing.T) {
	for _, timeout := range []time.Duration{0, 2 * time.Second, time.Minute} {
		m := newManual(t)
		m.AdvanceClock(time.Second + 500*time.Microsecond)
		tt := newTask(nil)
		addIn(t, m, tt, timeout)
		require.True(t, m.Extend(&tt.TaskEntry, 990*ms))
		require.True(t, m.Extend(&tt.TaskEntry, time.Second+400*time.Microsecond))
		m.AdvanceClock(0)
		assert.EqualValues(t, 1, tt.runs.Load(), "added with %s", timeout)
	}
}

// More young entries than one flush places expire in time, although nothing is added meanwhile.
func TestManyYoungEntriesExpireInTime(t *testing.T) {
	m := newManual(t)
	ran := 0
	for range 3*chunk + 1 {
		addIn(t, m, newTask(func() { ran++ }), time.Minute)
	}
	m.AdvanceClock(time.Minute - ms)
	assert.Zero(t, ran, "early")
	m.AdvanceClock(ms)
	assert.Equal(t, 3*chunk+1, ran)
	checkInvariants(t, &m.store, nil)
}

// youngOf returns the number of young entries.
func youngOf(t testing.TB, s *store) (n int) {
	for shard := range s.made {
		n += len(listOf(t, &shard.mu.young))
	}
	return n
}

// After a stall, a due entry of the last shard waits for one share of the young entries of each
// other shard, and not until all are placed.
func TestDueEntriesDoNotWaitForYoungOnes(t *testing.T) {
	const shards = 4
	m := newManual(t, WithShards(shards))
	addYoung(t, m, 3*shards*chunk)
	due := newTask(nil)
	due.inShard(shards - 1)
	addIn(t, m, due, 3*time.Second)
	left := -1
	m.clock = spied{m, func() time.Duration { return 5 * time.Second }, func(int64) { left = max(left, unplaced(t, &m.store)) }}
	assert.True(t, m.flush(5*time.Second))
	assert.GreaterOrEqual(t, left, 2*shards*chunk)
	assert.Zero(t, unplaced(t, &m.store))
	m.Stop()
}

// What comes due while a flush places young entries does not wait for its end either.
func TestAFlushLooksAtTheClockAgain(t *testing.T) {
	m := newManual(t)
	const n = 10 * chunk
	addYoung(t, m, n)
	addIn(t, m, newTask(nil), youngFor+2*ms)
	left := -1
	m.clock = spied{m, func() time.Duration { return youngFor + 3*ms }, func(int64) { left = max(left, unplaced(t, &m.store)) }}
	assert.True(t, m.flush(youngFor))
	assert.Greater(t, left, n/2)
	m.Stop()
}

// unplaced returns the number of entries that a flush has yet to put into the wheels.
func unplaced(t testing.TB, s *store) (n int) {
	for shard := range s.made {
		n += len(listOf(t, &shard.mu.young)) + len(listOf(t, &shard.mu.spill))
	}
	return n
}

// What is due in the last shard does not wait until a large bucket of another shard is placed
// again.
func TestDueEntriesDoNotWaitForTheBucketsOfOtherShards(t *testing.T) {
	m := newManual(t, WithShards(2), WithTick(1)) // no phase: the buckets expire together
	const n = 10 * chunk
	for range n {
		tt := newTask(nil)
		tt.inShard(0)
		addIn(t, m, tt, 100)
	}
	due := newTask(nil)
	due.inShard(1)
	addIn(t, m, due, 60)
	left := -1
	m.clock = spied{m, m.read, func(int64) { left = max(left, len(listOf(t, &m.shard(0).mu.spill))) }}
	assert.True(t, m.flush(64))
	assert.Greater(t, left, n/2)
	m.Stop()
}

// addYoung adds n young entries, the next one to another shard each time.
func addYoung(t *testing.T, m *ManualTimer, n int) {
	t.Helper()
	for i := range n {
		tt := newTask(nil)
		tt.inShard(i)
		addIn(t, m, tt, time.Minute)
	}
}

// The young entries of different shards are placed at different ticks. A driver without
// pending entries sleeps on.
func TestTheDriverWakesOnlyForPendingYoungEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 16
		timer, readings := newCounted(t, WithShards(shards))
		at := map[int64]bool{}
		var entries []*TaskEntry
		for i := range shards {
			tt := newTask(nil)
			tt.inShard(i)
			addIn(t, timer, tt, time.Minute)
			entries = append(entries, &tt.TaskEntry)
			timer.shard(i).mu.Lock()
			at[timer.shard(i).mu.youngAt] = true
			timer.shard(i).mu.Unlock()
		}
		assert.Len(t, at, shards)
		settle(2 * time.Second)
		assert.Zero(t, youngOf(t, &timer.store))
		assert.Equal(t, shards, timer.CancelAll(entries))
		settle(time.Minute) // the driver wakes up for buckets that have become empty
		readings.Store(0)
		settle(time.Hour)
		assert.LessOrEqual(t, readings.Load(), int64(4), "nothing is young, nothing is pending")
		assert.True(t, timer.Idle())

		for range 1000 { // an entry that is cancelled costs at most one wake-up for each second and shard
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
