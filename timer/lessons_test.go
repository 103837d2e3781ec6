package timer

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of this file are named after public issues of other timers. Their comments say
// what the other timer did.

// All entries of a bucket were cancelled and stayed in it. When their tick came, the wheel
// walked them in an endless loop, or followed a nil pointer.
func TestNetty2651And2662CancelledEntriesLeaveTheirBucket(t *testing.T) {
	m := newManual(t)
	tasks := make([]*testTask, 100)
	for i := range tasks {
		tasks[i] = newTask(nil)
		addIn(t, m, tasks[i], time.Hour)
	}
	for _, i := range rand.New(rand.NewPCG(2651, 2662)).Perm(len(tasks)) {
		require.True(t, m.Cancel(&tasks[i].TaskEntry))
		require.Nil(t, tasks[i].entry.Next, "still linked")
		require.Nil(t, tasks[i].entry.Prev, "still linked")
		checkInvariants(t, &m.store, nil)
	}
	assert.False(t, m.AdvanceClock(2*time.Hour))
}

func TestNetty15000PendingCountIsRight(t *testing.T) {
	m := newManual(t, WithMaxPending(3))
	a, b, c, d := newTask(nil), newTask(nil), newTask(nil), newTask(nil)
	pending := func(want int) {
		t.Helper()
		assert.Equal(t, want, m.Pending())
		checkInvariants(t, &m.store, func(*entry.Entry) bool { return false })
	}
	pending(0)
	addIn(t, m, a, time.Second)
	addIn(t, m, b, time.Hour)
	addIn(t, m, c, 0)
	pending(3)
	assert.Error(t, m.AddAt(&d.TaskEntry, 0, 1), "full")
	assert.Error(t, m.AddAt(&TaskEntry{}, 0, 1), "no task")
	pending(3)
	m.AdvanceClock(0)
	pending(2)
	assert.Error(t, m.AddAt(&a.TaskEntry, 0, 1), "scheduled already")
	pending(2)
	m.Extend(&a.TaskEntry, time.Minute)
	m.Extend(&b.TaskEntry, time.Minute)
	pending(2)
	m.Cancel(&a.TaskEntry)
	m.Cancel(&a.TaskEntry)
	m.CancelAll([]*TaskEntry{&a.TaskEntry, &c.TaskEntry})
	pending(1)
	m.AdvanceClock(time.Hour)
	m.Cancel(&b.TaskEntry)
	pending(0)
	addIn(t, m, a, time.Second)
	m.Stop()
	pending(0)
	assert.Error(t, m.AddAt(&b.TaskEntry, 0, 1), "stopped")
	pending(0)
}

func TestNetty14083StoppedTasksAreCancelled(t *testing.T) {
	m := newManual(t)
	once, err := m.AfterFunc(time.Second, func() {})
	require.NoError(t, err)
	periodic, err := m.ScheduleWithFixedDelay(time.Second, time.Second, func() {})
	require.NoError(t, err)
	due, err := m.AfterFunc(0, func() {})
	require.NoError(t, err)
	assert.Len(t, m.Stop(), 3)
	for _, h := range []*Handle{once, periodic, due} {
		assert.Equal(t, "cancelled", stateOf(h))
		assert.False(t, h.Stop())
		assert.False(t, h.Extend(time.Second))
	}
}

func TestNetty11723SlowTaskDoesNotStallTheWheel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t, WithWorkers(2))
		addIn(t, timer, newTask(func() { time.Sleep(time.Hour) }), time.Second)
		for i := range 600 {
			var at time.Duration
			tt := newTask(func() { at = timer.Now() })
			addIn(t, timer, tt, 3*time.Second)
			settle(3 * time.Second)
			require.Equal(t, tt.Deadline(), at, "while the slow one runs, after %d", i)
		}
		settle(time.Hour)
	})
}

func TestNetty7760OverflowDoesNotFireEarly(t *testing.T) {
	for _, start := range []time.Duration{0, 1, time.Hour, math.MaxInt64 / 2, Never - 1} {
		for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, Never - start, 290 * 365 * 24 * time.Hour} {
			m := newManual(t)
			m.AdvanceClock(start)
			tt := newTask(nil)
			addIn(t, m, tt, d)
			assert.Greater(t, tt.Deadline(), start)
			checkInvariants(t, &m.store, nil)
			m.AdvanceClock(tt.Deadline() - start - 1)
			assert.Zero(t, tt.runs.Load(), "at %v in %v", start, d)
		}
	}
}

// A timeout of exactly one round, or one that began in the middle of a tick, ran one round
// late.
func TestNetty1959AndGoZero5510NotOneRoundLate(t *testing.T) {
	const tick = time.Millisecond
	for _, size := range []int{2, 3, 16, 20, 64} {
		round := time.Duration(size) * tick
		for start := time.Duration(0); start <= 2*round; start += tick/2 + 1 {
			for _, d := range []time.Duration{round - tick, round - 1, round, round + 1, round * round / tick} {
				m := newManual(t, WithWheelSize(size))
				m.AdvanceClock(start)
				var at time.Duration
				tt := newTask(func() { at = m.Now() })
				addIn(t, m, tt, d)
				m.AdvanceClock(d + tick)
				require.GreaterOrEqual(t, at, start+d)
				require.Less(t, at, start+d+tick, "size %d, at %v in %v", size, start, d)
			}
		}
	}
}

func TestTheine64EntriesExpireExactlyAtLevelBorders(t *testing.T) {
	for _, size := range []int64{2, 5, 64} {
		border := size
		for range 5 {
			for _, d := range []int64{border - 1, border, border + 1} {
				m := newManual(t, WithTick(1), WithWheelSize(int(size)))
				m.AdvanceClock(7)
				var at time.Duration
				addIn(t, m, newTask(func() { at = m.Now() }), time.Duration(d))
				checkInvariants(t, &m.store, nil)
				m.AdvanceClock(math.MaxInt64)
				require.EqualValues(t, 7+d, at, "size %d", size)
			}
			border *= size
		}
	}
}

func TestCaffeine217LongAndShortDelaysExpireInOrder(t *testing.T) {
	m := newManual(t)
	var order []time.Duration
	delays := []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour, 100 * 365 * 24 * time.Hour}
	for _, d := range delays {
		addIn(t, m, newTask(func() { order = append(order, d); assert.Equal(t, d, m.Now()) }), d)
		checkInvariants(t, &m.store, nil)
	}
	for range 200 {
		m.AdvanceClock(365 * 24 * time.Hour)
		checkInvariants(t, &m.store, nil)
	}
	assert.Equal(t, delays, order)
}

// The wheel failed when its clock was negative or crossed zero. Here the clock begins at 0,
// but a caller may pass any time.
func TestCaffeine541NegativeTimesAreAccepted(t *testing.T) {
	m := newManual(t)
	for _, now := range []time.Duration{-1, -time.Millisecond, -time.Hour, math.MinInt64} {
		for _, deadline := range []time.Duration{math.MinInt64, -time.Hour, -1, 0, 1, m.Now() + time.Second} {
			tt := newTask(nil)
			require.NoError(t, m.AddAt(&tt.TaskEntry, now, deadline))
			checkInvariants(t, &m.store, nil)
			m.AdvanceClock(time.Second)
			require.EqualValues(t, 1, tt.runs.Load(), "now %d, deadline %d", now, deadline)
			require.NoError(t, m.AddAt(&tt.TaskEntry, now, m.Now()+time.Hour))
			require.Zero(t, dueOf(t, &m.store), "after now %d it is not due, but in the wheel", now)
			require.True(t, m.Cancel(&tt.TaskEntry))
		}
	}
}

// After a stall, timers that had become due during it never ran. Here the next AdvanceClock
// hands over everything that is due, and later entries are in time.
func TestGoZero3619CatchesUpAfterAStall(t *testing.T) {
	for _, stall := range []time.Duration{time.Second, time.Hour, 1000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			timer, err := NewSystemTimer()
			require.NoError(t, err)
			defer timer.Stop()
			tasks := make([]*testTask, 2000)
			for i := range tasks {
				tasks[i] = newTask(nil)
				addIn(t, timer, tasks[i], stall*time.Duration(i)/1000+1)
			}
			time.Sleep(stall)
			assert.True(t, timer.AdvanceClock(0))
			synctest.Wait()
			for i, tt := range tasks {
				want := int32(1)
				if tt.Deadline() > stall {
					want = 0
				}
				require.Equal(t, want, tt.runs.Load(), "task %d", i)
			}
			for timer.AdvanceClock(stall) {
			}
			timer.AdvanceClock(2 * time.Millisecond)
			synctest.Wait()
			assert.Zero(t, timer.Pending())
			checkInvariants(t, &timer.store, nil)
		})
	}
}

// Both the time and the bucket were rounded down, and a fifth of all timers ran early.
func TestKafkaNoTimerIsEarly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, tick := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
		m := newManual(t, WithTick(tick))
		ran := 0
		for range 2000 {
			tt := newTask(nil)
			tt.f = func() {
				ran++
				late := m.Now() - tt.Deadline()
				require.GreaterOrEqual(t, late, time.Duration(0), "early")
				require.Less(t, late, tick)
			}
			addIn(t, m, tt, 1+time.Duration(rng.Int64N(int64(time.Minute))))
			m.AdvanceClock(time.Duration(rng.Int64N(int64(tick))))
		}
		m.AdvanceClock(time.Hour)
		assert.Equal(t, 2000, ran)
	}
}
