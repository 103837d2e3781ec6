package timer

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFixedRateCountsFromTheDueTime(t *testing.T) {
	m := newManual(t)
	var at []time.Duration
	h, err := m.ScheduleAtFixedRate(500*time.Millisecond, time.Second, func() { at = append(at, m.Now()/time.Millisecond) })
	require.NoError(t, err)
	m.AdvanceClock(3600 * time.Millisecond)
	assert.Equal(t, []time.Duration{500, 1500, 2500, 3500}, at)
	assert.Equal(t, "pending", stateOf(h))
	assert.True(t, h.Stop())
	m.AdvanceClock(time.Minute)
	assert.Len(t, at, 4)
}

// The first run lasts 2.5 s. At a fixed rate, the runs that it has delayed follow at once;
// with a fixed delay, the next run begins one delay after its end.
func TestFixedRateCatchesUpAndFixedDelayDoesNot(t *testing.T) {
	starts := func(schedule func(*SystemTimer, func()) error) (at []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			timer := newSystem(t)
			require.NoError(t, schedule(timer, func() {
				at = append(at, timer.Now()/time.Millisecond)
				if len(at) == 1 {
					time.Sleep(2500 * time.Millisecond)
				}
			}))
			settle(5100 * time.Millisecond)
			timer.Stop()
			synctest.Wait()
		})
		return at
	}
	assert.Equal(t, []time.Duration{1000, 3500, 3500, 4000, 5000}, starts(func(timer *SystemTimer, f func()) error {
		_, err := timer.ScheduleAtFixedRate(time.Second, time.Second, f)
		return err
	}))
	assert.Equal(t, []time.Duration{1000, 4500}, starts(func(timer *SystemTimer, f func()) error {
		_, err := timer.ScheduleWithFixedDelay(time.Second, time.Second, f)
		return err
	}))
}

func TestPeriodicCatchesUpAfterAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer()
		require.NoError(t, err)
		runs := 0
		_, err = timer.ScheduleAtFixedRate(time.Second, time.Second, func() { runs++ })
		require.NoError(t, err)
		settle(time.Minute) // no goroutine drives the timer
		timer.AdvanceClock(0)
		synctest.Wait()
		assert.Equal(t, 60, runs)
		timer.Stop()
	})
}

func TestPeriodicSurvivesPanicAndGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := 0
		timer := newSystem(t, WithPanicHandler(func(any, []byte) { panics++ }))
		runs := 0
		_, err := timer.ScheduleAtFixedRate(time.Second, time.Second, func() {
			switch runs++; runs % 3 {
			case 1:
				panic("once more")
			case 2:
				runtime.Goexit()
			}
		})
		require.NoError(t, err)
		settle(9*time.Second + time.Millisecond)
		assert.Equal(t, 9, runs)
		assert.Equal(t, 3, panics)
	})
}

func TestPeriodicStop(t *testing.T) {
	t.Run("from its own function", func(t *testing.T) {
		m := newManual(t)
		var h *Handle
		runs := 0
		h, err := m.ScheduleWithFixedDelay(time.Second, time.Second, func() {
			if runs++; runs == 3 {
				assert.True(t, h.Stop())
			}
		})
		require.NoError(t, err)
		m.AdvanceClock(time.Minute)
		assert.Equal(t, 3, runs)
		assert.Equal(t, "cancelled", stateOf(h))
		assert.False(t, h.Stop())
		assert.Zero(t, m.Pending())
	})
	t.Run("while it runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			timer := newSystem(t)
			runs := 0
			h, err := timer.ScheduleAtFixedRate(time.Second, time.Second, func() { runs++; time.Sleep(time.Minute) })
			require.NoError(t, err)
			settle(2 * time.Second)
			assert.Equal(t, "pending", stateOf(h))
			assert.True(t, h.Stop())
			assert.False(t, h.Stop())
			assert.Equal(t, "cancelled", stateOf(h))
			settle(time.Hour)
			assert.Equal(t, 1, runs)
		})
	})
	t.Run("of a handle whose timer was stopped", func(t *testing.T) {
		m := newManual(t)
		h, err := m.ScheduleAtFixedRate(time.Second, time.Second, func() {})
		require.NoError(t, err)
		assert.Equal(t, []any{h}, m.Stop())
		assert.Equal(t, "cancelled", stateOf(h))
		assert.False(t, h.Stop(), "it was stopped before")
	})
}

func TestPeriodicEndsWithItsTimer(t *testing.T) {
	m := newManual(t)
	var h *Handle
	runs := 0
	h, err := m.ScheduleAtFixedRate(time.Second, time.Second, func() {
		if runs++; runs == 2 {
			assert.Empty(t, m.Stop(), "it runs, so it is not among those that have not fired")
		}
	})
	require.NoError(t, err)
	m.AdvanceClock(time.Minute)
	assert.Equal(t, 2, runs)
	assert.Equal(t, "cancelled", stateOf(h))
}

func TestPeriodicExtendMovesTheNextRun(t *testing.T) {
	m := newManual(t)
	var at []time.Duration
	h, err := m.ScheduleAtFixedRate(time.Second, time.Second, func() { at = append(at, m.Now()/time.Millisecond) })
	require.NoError(t, err)
	assert.True(t, h.Extend(2500*time.Millisecond))
	m.AdvanceClock(4 * time.Second)
	assert.True(t, h.Extend(100*time.Millisecond))
	pending, err := h.Reset(200 * time.Millisecond)
	assert.True(t, pending)
	require.NoError(t, err)
	m.AdvanceClock(time.Second)
	assert.Equal(t, []time.Duration{2500, 3500, 4200}, at)
	h.Stop()
	pending, err = h.Reset(time.Second)
	assert.False(t, pending)
	require.NoError(t, err)
	m.AdvanceClock(time.Minute)
	assert.Len(t, at, 3, "Reset does not start a stopped periodic handle")
}

// While a periodic function runs, its entry is not pending. The next run is scheduled even if
// the timer is full.
func TestPeriodicKeepsItsPlaceInAFullTimer(t *testing.T) {
	m := newManual(t, WithMaxPending(1))
	var h *Handle
	runs := 0
	h, err := m.ScheduleAtFixedRate(time.Second, time.Second, func() {
		if runs++; runs == 1 {
			_, err := m.AfterFunc(10*time.Second, func() {})
			assert.NoError(t, err)
		}
	})
	require.NoError(t, err)
	m.AdvanceClock(20 * time.Second)
	assert.Equal(t, 20, runs)
	assert.Equal(t, "pending", stateOf(h))
	checkInvariants(t, &m.store, nil)
	h.Stop()
	checkInvariants(t, &m.store, nil)
}

// A manual clock stops at Never, and deadlines saturate there. The run at Never is the last.
func TestPeriodicAtTheEndOfTime(t *testing.T) {
	for _, period := range []time.Duration{1, time.Hour, math.MaxInt64} {
		m := newManual(t)
		m.AdvanceClock(math.MaxInt64)
		runs := 0
		count := func() {
			if runs++; runs > 100 {
				m.Stop() // AdvanceClock would not return
			}
		}
		atRate, err := m.ScheduleAtFixedRate(0, period, count)
		require.NoError(t, err)
		withDelay, err := m.ScheduleWithFixedDelay(0, period, count)
		require.NoError(t, err)
		m.AdvanceClock(time.Hour)
		assert.Equal(t, 2, runs, "period %d", period)
		assert.Equal(t, 2, m.Pending(), "the next runs are never due")
		assert.True(t, atRate.Stop())
		assert.True(t, withDelay.Stop())
		checkInvariants(t, &m.store, nil)
	}
}

// A deadline of 0 is that of an entry that was never added, so AddAt takes it for 1 ns.
func TestFixedRateFromTimeZero(t *testing.T) {
	m := newManual(t)
	var at []time.Duration
	_, err := m.ScheduleAtFixedRate(0, time.Millisecond, func() { at = append(at, m.Now()/time.Millisecond) })
	require.NoError(t, err)
	m.AdvanceClock(3 * time.Millisecond)
	assert.Equal(t, []time.Duration{0, 1, 2, 3}, at)
}

func TestFixedRateOfOneNanosecondAdvances(t *testing.T) {
	for _, first := range []time.Duration{0, 1} {
		m := newManual(t, WithTick(1))
		runs := 0
		_, err := m.ScheduleAtFixedRate(first, 1, func() {
			if runs++; runs > 100 {
				m.Stop() // otherwise AdvanceClock would not return
			}
		})
		require.NoError(t, err)
		m.AdvanceClock(10)
		assert.Equal(t, 10, runs, "time 0 counts as 1 ns")
	}
}

func TestPeriodicRefusesAPeriodThatIsNotPositive(t *testing.T) {
	m := newManual(t)
	for _, period := range []time.Duration{0, -1, math.MinInt64} {
		_, err := m.ScheduleAtFixedRate(0, period, func() {})
		require.ErrorIs(t, err, ErrInvalid)
		_, err = m.ScheduleWithFixedDelay(0, period, func() {})
		require.ErrorIs(t, err, ErrInvalid)
	}
	_, err := m.ScheduleAtFixedRate(0, math.MaxInt64, func() {})
	require.NoError(t, err)
	_, err = m.ScheduleWithFixedDelay(0, math.MaxInt64, nil)
	require.ErrorIs(t, err, ErrInvalid)
	m.AdvanceClock(time.Hour)
	assert.Equal(t, 1, m.Pending(), "the next run is at the end of time")
}

func TestPeriodicStopRacingItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t)
		for range 300 {
			var mu sync.Mutex
			stopped, late := false, 0
			h, err := timer.ScheduleAtFixedRate(0, time.Millisecond, func() {
				mu.Lock()
				defer mu.Unlock()
				if stopped {
					late++
				}
			})
			require.NoError(t, err)
			settle(2 * time.Millisecond)
			h.Stop()
			mu.Lock()
			stopped = true
			mu.Unlock()
			settle(5 * time.Millisecond)
			mu.Lock()
			assert.LessOrEqual(t, late, 1, "only the run that was under way")
			mu.Unlock()
			assert.Equal(t, "cancelled", stateOf(h))
		}
		assert.Zero(t, timer.Pending())
	})
}

func TestPeriodicStopDuringARunPreventsTheNext(t *testing.T) {
	m := newManual(t)
	runs := 0
	h, err := m.ScheduleAtFixedRate(time.Second, time.Second, func() { runs++ })
	require.NoError(t, err)
	m.clock = spied{m, func() time.Duration { // again reads the clock before it adds the entry
		if runs > 0 {
			h.Stop()
		}
		return m.read()
	}, m.need}
	m.AdvanceClock(time.Second)
	assert.Equal(t, 1, runs)
	assert.Zero(t, m.Pending(), "it does not stay in the timer")
	assert.Equal(t, "cancelled", stateOf(h))
}

// The first Stop of a periodic handle prevents the run after the one in progress.
func TestPeriodicStopReportsThatItPreventedARun(t *testing.T) {
	m := newManual(t)
	for range 20_000 {
		var running atomic.Bool
		h, err := m.ScheduleAtFixedRate(time.Second, time.Second, func() { running.Store(true) })
		require.NoError(t, err)
		stopped := make(chan bool)
		go func() {
			for !running.Load() {
				runtime.Gosched()
			}
			stopped <- h.Stop()
		}()
		m.AdvanceClock(time.Second)
		require.True(t, <-stopped)
		require.False(t, h.Stop(), "it was stopped before")
	}
	assert.Zero(t, m.Pending())
}
