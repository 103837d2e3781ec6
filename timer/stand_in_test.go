package timer

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The runtime may wake the driver late. A goroutine that adds an entry then, with a reading of
// the clock that shows it, starts a stand-in; one that adds an entry earlier does not.
func TestAnAdditionStandsInForALateDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, readings := newCounted(t, WithShards(1)) // one shard, because the phase of another could put the entry of an hour into an earlier bucket
		const tick = time.Millisecond
		addIn(t, timer, newTask(nil), 50*tick) // due at tick 51, because the clock is past 0
		synctest.Wait()
		add := func(now time.Duration) (called bool) {
			readings.Store(0)
			require.NoError(t, timer.AddAt(&newTask(nil).TaskEntry, now, time.Hour))
			synctest.Wait()
			return readings.Load() > 0
		}
		assert.False(t, add(0))
		assert.False(t, add(51*tick+tick/4), "it has that long to wake up")
		assert.True(t, add(51*tick+tick/4+1))
		assert.False(t, add(51*tick+tick/2+1), "a stand-in has that long, too")
		assert.True(t, add(51*tick+tick/2+2), "then it is replaced")
		settle(2 * time.Second)
		addIn(t, timer, newTask(nil), time.Hour)
		synctest.Wait()
		assert.False(t, add(2*youngFor+tick), "it sleeps until it has to place the young")
		assert.True(t, timer.Idle())
	})
}

// asleep sets timer's state, which no goroutine drives, to that of a driver that sleeps until
// then.
func asleep(timer *SystemTimer, until time.Duration) { timer.overdue.Store(timer.late(int64(until))) }

func TestAStandInHandsOverOverdueEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer(WithShards(4))
		require.NoError(t, err)
		defer timer.Stop()
		readings := countingClock(timer)
		task := func(d time.Duration, shard uint32) *testTask {
			tt := newTask(nil)
			tt.inShard(int(shard))
			addIn(t, timer, tt, d)
			return tt
		}
		first, second, third := task(10*ms, 0), task(20*ms, 1), task(30*ms, 2)
		asleep(timer, 10*ms)
		settle(10 * ms)
		task(time.Hour, 3)
		synctest.Wait()
		assert.Zero(t, first.runs.Load(), "the driver is not late yet")

		settle(ms)
		task(time.Hour, 3)
		synctest.Wait()
		assert.EqualValues(t, 1, first.runs.Load())
		assert.Zero(t, second.runs.Load())

		settle(ms)
		readings.Store(0)
		task(time.Hour, 3)
		synctest.Wait()
		assert.Zero(t, readings.Load(), "nothing is overdue")

		settle(9 * ms)
		task(time.Hour, 3)
		synctest.Wait()
		assert.EqualValues(t, 1, second.runs.Load(), "the driver has slept on")

		timer.overdue.Store(never) // as a driver does that wakes up
		settle(10 * ms)
		task(time.Hour, 3)
		synctest.Wait()
		timer.callStandIn(int64(20*ms), int64(timer.Now())) // as a goroutine does that has read overdue before
		synctest.Wait()
		assert.Zero(t, third.runs.Load(), "the driver is awake, so no stand-in is started")
		assert.True(t, timer.AdvanceClock(0))
		synctest.Wait()
		assert.EqualValues(t, 1, third.runs.Load())
		assert.True(t, timer.Idle())
	})
}

func TestNoStandInStartsWithoutADriver(t *testing.T) {
	for _, driven := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			timer, err := NewSystemTimer()
			require.NoError(t, err)
			defer timer.Stop()
			due := newTask(nil)
			addIn(t, timer, due, 5*time.Millisecond)
			if driven {
				assert.False(t, timer.AdvanceClock(time.Millisecond))
			}
			settle(10 * time.Millisecond)
			addIn(t, timer, newTask(nil), time.Hour)
			synctest.Wait()
			assert.Zero(t, due.runs.Load(), "no driver sleeps, so no stand-in is started")
		})
	}
}

// A driver that sleeps for ever is never late, and neither is one for which nothing is pending.
func TestADriverThatSleepsForEverIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer()
		require.NoError(t, err)
		defer timer.Stop()
		asleep(timer, Never)
		assert.Greater(t, timer.overdue.Load(), int64(time.Hour))
		timer.callStandIn(timer.overdue.Load(), int64(time.Hour))
		synctest.Wait()
		assert.Greater(t, timer.overdue.Load(), int64(time.Hour))
	})
}

// While a stand-in flushes, no other one does, however late the driver is.
func TestOneStandInFlushesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		timer, err := NewSystemTimer(WithShards(2))
		require.NoError(t, err)
		defer timer.Stop()
		var readings atomic.Int64
		timer.clock = spied{timer, func() time.Duration { readings.Add(1); <-leave; return timer.read() }, timer.need}
		due := [2]*testTask{newTask(nil), newTask(nil)}
		for i, tt := range due {
			tt.inShard(i)
			addIn(t, timer, tt, time.Millisecond)
		}
		asleep(timer, time.Millisecond)
		for range 3 {
			settle(2 * time.Millisecond)
			addIn(t, timer, newTask(nil), time.Hour)
			synctest.Wait()
			assert.True(t, timer.standing.Load(), "it is held up")
			assert.False(t, timer.Idle())
			assert.EqualValues(t, 1, readings.Load(), "its own")
		}
		close(leave)
		synctest.Wait()
		assert.EqualValues(t, 1, due[0].runs.Load())
		assert.EqualValues(t, 1, due[1].runs.Load())
		assert.True(t, timer.Idle())
	})
}

// A stand-in that has yet to flush is work, although nothing is due.
func TestATimerIsNotIdleBesideAStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		timer, err := NewSystemTimer()
		require.NoError(t, err)
		defer timer.Stop()
		addIn(t, timer, newTask(nil), time.Millisecond)
		timer.clock = spied{timer, func() time.Duration { <-leave; return timer.read() }, timer.need}
		asleep(timer, time.Millisecond)
		timer.callStandIn(timer.overdue.Load(), int64(time.Second))
		synctest.Wait()
		assert.False(t, timer.Idle())
		close(leave)
		synctest.Wait()
		assert.True(t, timer.Idle())
	})
}

// The driver may wake up while a stand-in is half-way down an overflow bucket, and flush too,
// with a reading of the clock that is older or newer. No entry is lost, early or late.
func TestTwoFlushesAtOnce(t *testing.T) {
	for _, other := range []time.Duration{60 * ms, 64 * ms, 70 * ms, 99 * ms} {
		m := newManual(t)
		const n = 3 * chunk
		runs := 0
		for range n {
			addIn(t, m, newTask(func() { runs++ }), 127*ms)
		}
		cancelled := newTask(nil) // so that a flush at 60 ms looks at the wheel
		addIn(t, m, cancelled, 50*ms)
		m.Cancel(&cancelled.TaskEntry)
		require.True(t, m.shard(0).flushLocked(int64(70*ms)), "it stops half-way down")
		m.setClock(max(other, 70*ms))
		m.flush(other)
		m.flush(70 * ms)
		assert.Zero(t, dueOf(t, &m.store), "handed over too early")
		checkInvariants(t, &m.store, nil)
		m.AdvanceClock(127*ms - 1 - m.Now())
		assert.Zero(t, runs, "early")
		m.AdvanceClock(1)
		assert.Equal(t, n, runs, "beside a flush at %s", other)
	}
}
