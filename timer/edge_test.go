package timer

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runsAt adds a task with this timeout when the clock reads start, and returns when it runs.
func runsAt(t *testing.T, tick, start, timeout time.Duration) (at time.Duration, ran bool) {
	t.Helper()
	m := newManual(t, WithTick(tick))
	m.AdvanceClock(start)
	tt := newTask(func() { at, ran = m.Now(), true })
	addIn(t, m, tt, timeout)
	checkInvariants(t, &m.store, nil)
	m.AdvanceClock(math.MaxInt64)
	checkInvariants(t, &m.store, nil)
	return at, ran
}

func TestEdgeDeadlines(t *testing.T) {
	for _, c := range []struct{ tick, start, timeout, want time.Duration }{
		// A timeout of 0 or less runs at once, not at the end of the tick.
		{ms, 0, 0, 0},
		{ms, 0, -1, 0},
		{ms, 0, math.MinInt64, 0},
		{ms, 1500 * time.Microsecond, 0, 1500 * time.Microsecond},
		{ms, 1500 * time.Microsecond, -ms, 1500 * time.Microsecond},
		{time.Hour, 90 * time.Minute, 0, 90 * time.Minute},
		// Other timeouts are rounded up to the end of a tick.
		{ms, 0, 1, ms},
		{ms, 0, ms - 1, ms},
		{ms, 0, ms, ms},
		{ms, 0, ms + 1, 2 * ms},
		{ms, ms - 1, 1, ms},
		{ms, ms - 1, 2, 2 * ms},
		{ms, ms + 1, ms - 1, 2 * ms},
		{20 * ms, 43 * ms, 194 * ms, 240 * ms}, // due at 237 ms, so not at 220 ms
		{time.Hour, 0, 1, time.Hour},
		{time.Hour, time.Hour, time.Hour, 2 * time.Hour},
		{time.Hour, time.Hour, time.Hour + 1, 3 * time.Hour},
		// A tick of 1 ns needs no rounding.
		{1, 0, 1, 1},
		{1, 12345, 678, 12345 + 678},
		{1, 1, time.Hour, time.Hour + 1},
		{1, Never - 10, 5, Never - 5},
		{1, Never - 10, 9, Never - 1},
		{1, lastTime, 0, lastTime},
	} {
		t.Run(fmt.Sprintf("tick %v at %v in %v", c.tick, c.start, c.timeout), func(t *testing.T) {
			at, ran := runsAt(t, c.tick, c.start, c.timeout)
			assert.True(t, ran)
			assert.Equal(t, c.want, at)
		})
	}
}

// The wheel rounds a deadline up to a tick. That of the latest ones is one that the clock does not reach, and not one that has passed.
func TestEdgeAFarDeadlineIsNotDue(t *testing.T) {
	for _, tick := range []int64{1, 3, int64(time.Millisecond), int64(time.Hour), math.MaxInt64 / 2, math.MaxInt64} {
		for _, size := range []int64{2, 3, 64} {
			for _, back := range []int64{0, 1, 2, tick / 2, tick - 1} {
				s := newShard(1, &config{tick: tick, wheelSize: size, shardCount: 2})
				e := entry.Entry{At: max(int64(Never)-back, 1)}
				assert.Positive(t, s.putLocked(&e), "%v before Never, tick %v, size %d", back, tick, size)
				assert.True(t, s.mu.due.Empty())
			}
		}
	}
}

func TestEdgeNeverIsNotReached(t *testing.T) {
	for _, tick := range []time.Duration{1, 3, time.Millisecond, time.Hour, math.MaxInt64} { // Never is a multiple of 3
		for _, start := range []time.Duration{0, Never - 10, lastTime} {
			_, ran := runsAt(t, tick, start, math.MaxInt64)
			assert.False(t, ran, "tick %v", tick)
		}
	}
}

func TestEdgeExtend(t *testing.T) {
	m := newManual(t)
	tt := newTask(nil)
	e := &tt.TaskEntry
	addIn(t, m, tt, time.Second)

	require.True(t, m.Extend(e, math.MaxInt64))
	assert.Equal(t, Never, tt.Deadline(), "saturates")
	checkInvariants(t, &m.store, func(*entry.Entry) bool { return false })
	assert.False(t, m.AdvanceClock(time.Hour), "what was extended has not run")
	checkInvariants(t, &m.store, nil)
	assert.Equal(t, 1, m.Pending())

	for _, past := range []time.Duration{time.Hour, 1, 0, -1, math.MinInt64} {
		require.True(t, m.Extend(e, past), "%d", past)
		assert.Positive(t, tt.Deadline())
		checkInvariants(t, &m.store, nil)
		assert.True(t, m.AdvanceClock(0), "%d: in the past, so it runs now", past)
		assert.False(t, m.Extend(e, past), "too late")
		addIn(t, m, tt, time.Hour)
	}
	assert.EqualValues(t, 5, tt.runs.Load())
	assert.True(t, m.Cancel(e))
	assert.False(t, m.Extend(e, Never), "cancelled")
	assert.False(t, m.Extend(&TaskEntry{}, Never), "never added")
}

func TestEdgeAnOldReadingOfTheClockIsAccepted(t *testing.T) {
	m := newManual(t)
	m.AdvanceClock(time.Hour)
	for i, now := range []time.Duration{time.Hour, time.Hour - 1, time.Minute, 0, -1, math.MinInt64} {
		tt := newTask(nil)
		require.NoError(t, m.AddAt(&tt.TaskEntry, now, time.Hour+time.Duration(i)*time.Second))
		checkInvariants(t, &m.store, nil)
		early := newTask(nil)
		require.NoError(t, m.AddAt(&early.TaskEntry, now, time.Minute))
		m.AdvanceClock(0)
		assert.EqualValues(t, 1, early.runs.Load())
	}
	m.AdvanceClock(5 * time.Second)
	assert.Zero(t, m.Pending())
}

// The clock has reached an entry's deadline, and the goroutine that adds it does not know that yet.
func TestEdgeAnEntryIsDueByTheClockAlthoughAnOldReadingIsBeforeIt(t *testing.T) {
	m := newManual(t)
	addIn(t, m, newTask(nil), time.Hour)
	m.AdvanceClock(time.Hour)
	tt := newTask(nil)
	require.NoError(t, m.AddAt(&tt.TaskEntry, time.Hour-1, time.Hour))
	n, _ := Due(m)
	assert.Equal(t, 1, n)
	checkInvariants(t, &m.store, nil)
	assert.True(t, m.AdvanceClock(0))
	assert.EqualValues(t, 1, tt.runs.Load())
}

// The wheel is moved only where entries are. After an idle hour an entry is nevertheless placed in
// the lowest level that its timeout needs.
func TestEdgeAfterAnIdleHourEntriesArePlacedAsLowAsPossible(t *testing.T) {
	soon := func(t *testing.T, m *ManualTimer) { addIn(t, m, newTask(nil), 10*ms) }
	for name, add := range map[string]func(t *testing.T, m *ManualTimer){
		"added": soon,
		"added after one that is due": func(t *testing.T, m *ManualTimer) {
			addIn(t, m, newTask(nil), 0)
			soon(t, m)
		},
		"moved by Extend": func(t *testing.T, m *ManualTimer) {
			tt := newTask(nil)
			addIn(t, m, tt, time.Minute)
			require.True(t, m.Extend(&tt.TaskEntry, m.Now()+10*ms))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManual(t)
			m.mu.now, m.mu.target = time.Hour, time.Hour
			add(t, m)
			assert.Equal(t, []int{1}, placed(t, &m.store))
			checkInvariants(t, &m.store, nil)
			m.Stop()
		})
	}
}

func TestEdgeTickOfOneNanosecondFollowsEveryDeadline(t *testing.T) {
	m := newManual(t, WithTick(1), WithWheelSize(3))
	for _, d := range []time.Duration{1, 2, 3, 4, 8, 9, 10, 26, 27, 28, 80, 81, 82} {
		var at time.Duration
		addIn(t, m, newTask(func() { at = m.Now() }), d)
		want := m.Now() + d
		m.AdvanceClock(d - 1)
		assert.Zero(t, at, "early")
		m.AdvanceClock(1)
		assert.Equal(t, want, at)
		checkInvariants(t, &m.store, nil)
	}
}
