package timer

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAdvanceClockUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t) // its own goroutine is the driver
		began := time.Now()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { assert.False(t, timer.AdvanceClockUntil(stop, time.Hour)) })
		}
		time.Sleep(time.Minute)
		close(stop)
		wg.Wait()
		assert.Equal(t, time.Minute, time.Since(began), "those that wait to be the driver go at once")

		tt := newTask(nil)
		addIn(t, timer, tt, time.Second)
		assert.False(t, timer.AdvanceClockUntil(stop, time.Hour), "it is closed")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 1, tt.runs.Load())
	})
	m := newManual(t)
	tt := newTask(nil)
	addIn(t, m, tt, time.Second)
	stop := make(chan struct{})
	assert.True(t, m.AdvanceClockUntil(stop, time.Second))
	close(stop)
	assert.False(t, m.AdvanceClockUntil(stop, time.Second))
	assert.Equal(t, time.Second, m.Now(), "the clock stands still")
}

// A driver that is told to stop as it falls asleep returns, though it is woken at once, and what is due then is left to
// the next one.
func TestADriverThatIsToldToStopHandsNothingOver(t *testing.T) {
	timer, err := NewSystemTimer()
	require.NoError(t, err)
	defer timer.Stop()
	tt := newTask(nil)
	addIn(t, timer, tt, time.Minute)
	stop, readings := make(chan struct{}), 0
	timer.clock = spied{timer, func() time.Duration {
		switch readings++; readings {
		case 1, 2: // for the end of its turn, and for the first flush
			return 0
		case 3: // for its sleep
			close(stop)
			timer.wakeup.Put()
			return 0
		default:
			return time.Hour
		}
	}, timer.need}
	assert.False(t, timer.AdvanceClockUntil(stop, time.Hour))
	assert.Equal(t, 3, readings)
	assert.Equal(t, 1, timer.Pending())
}

// A purgatory whose shared timer was stopped must not spin.
func TestAdvanceClockUntilWaitsOnAStoppedTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer()
		require.NoError(t, err)
		timer.Stop()
		began := time.Now()
		assert.False(t, timer.AdvanceClockUntil(make(chan struct{}), time.Minute))
		assert.Equal(t, time.Minute, time.Since(began))
		stop := make(chan struct{})
		close(stop)
		assert.False(t, timer.AdvanceClockUntil(stop, time.Minute))
		assert.Equal(t, time.Minute, time.Since(began))
		assert.False(t, timer.AdvanceClock(time.Minute))
		assert.Equal(t, time.Minute, time.Since(began))
	})
}
