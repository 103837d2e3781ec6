package timer

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheSharedTimerIsOneForTheProgramAndOneForEachBubble(t *testing.T) {
	outside := Shared()
	assert.Same(t, outside, Shared())
	synctest.Test(t, func(t *testing.T) {
		inside := Shared()
		assert.NotSame(t, outside, inside)
		assert.NotSame(t, inside, Shared())
	})
	assert.Same(t, outside, Shared())
	before := live.Load()
	fired := make(chan struct{})
	_, err := outside.AfterFunc(time.Millisecond, func() { close(fired) })
	require.NoError(t, err)
	select {
	case <-fired:
	case <-time.After(time.Minute):
		require.Fail(t, "nobody drives the shared timer")
	}
	assert.Equal(t, before, live.Load(), "it is none of those of which a program needs few")
}

// Entries that are added, extended and cancelled in any order expire in time, and no goroutine stays.
func TestASharedTimerDrivesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSelfDriven()
		start := time.Now()
		type firing struct{ due, at time.Duration }
		var fired []firing
		var mu sync.Mutex
		add := func(d time.Duration) *Handle {
			due := time.Since(start) + d
			h, err := timer.AfterFunc(d, func() {
				mu.Lock()
				defer mu.Unlock()
				fired = append(fired, firing{due, time.Since(start)})
			})
			require.NoError(t, err)
			return h
		}
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(fired) }
		delays := []time.Duration{time.Minute, 10 * time.Millisecond, time.Hour, 0, 5 * time.Second, time.Millisecond, 30 * time.Hour}
		for _, d := range delays {
			add(d)
		}
		extended, stopped := add(time.Second), add(time.Second)
		require.True(t, extended.Extend(2*time.Hour))
		require.True(t, stopped.Stop())
		time.Sleep(2 * time.Hour)
		add(time.Second) // after all is quiet but for the last
		time.Sleep(48 * time.Hour)
		require.Equal(t, len(delays)+2, count())
		for _, f := range fired {
			if f.due == time.Second {
				f.due = 2 * time.Hour
			}
			assert.True(t, f.at >= f.due && f.at <= f.due+2*time.Millisecond, "due at %v, fired at %v", f.due, f.at)
		}
		assert.Zero(t, timer.Pending())
		assert.Equal(t, int64(never), timer.wake.Load(), "the alarm is not set")
		timer.Stop()
	})
}

// Whoever calls AdvanceClock, as the reaper of a purgatory does, waits, and changes nothing.
func TestNobodyElseDrivesASharedTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSelfDriven()
		fired := make(chan time.Time, 1)
		stop, ended := make(chan struct{}), make(chan bool)
		for _, d := range []time.Duration{time.Millisecond, 10 * time.Second, 150 * time.Millisecond} {
			due := time.Now().Add(d)
			_, err := timer.AfterFunc(d, func() { fired <- time.Now() })
			require.NoError(t, err)
			start := time.Now()
			assert.False(t, timer.AdvanceClock(200*time.Millisecond))
			assert.Equal(t, 200*time.Millisecond, time.Since(start))
			late := (<-fired).Sub(due)
			assert.True(t, late >= 0 && late <= 2*time.Millisecond, "%v late", late)
		}
		go func() { ended <- timer.AdvanceClockUntil(stop, time.Hour) }()
		synctest.Wait()
		close(stop)
		assert.False(t, <-ended)
		go func() { ended <- timer.AdvanceClock(time.Hour) }()
		synctest.Wait()
		timer.Stop()
		assert.False(t, <-ended)
	})
}

func TestASharedTimerThatIsStoppedStaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSelfDriven()
		_, err := timer.AfterFunc(time.Second, func() { t.Error("it has fired") })
		require.NoError(t, err)
		assert.Len(t, timer.Stop(), 1)
		time.Sleep(time.Minute)
		_, err = timer.AfterFunc(time.Second, func() {})
		require.ErrorIs(t, err, ErrStopped)
	})
}

// Many goroutines add; each deadline is met, whoever has set the alarm.
func TestManyUseASharedTimer(t *testing.T) {
	timer := newSelfDriven()
	defer timer.Stop()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				fired := make(chan struct{})
				h, err := timer.AfterFunc(time.Duration(1+(i*j)%3)*time.Millisecond, func() { close(fired) })
				if !assert.NoError(t, err) {
					return
				}
				if j%5 == 0 && h.Stop() {
					continue
				}
				select {
				case <-fired:
				case <-time.After(time.Minute):
					assert.Fail(t, "an entry has not expired in a minute")
					return
				}
			}
		})
	}
	all.Wait()
	for !timer.Idle() {
		runtime.Gosched()
	}
}
