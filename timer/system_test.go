package timer

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/workers"
)

// settle lets d pass in a synctest bubble and waits until all goroutines are blocked.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// newSystem returns a started timer that is stopped when the test ends.
func newSystem(t *testing.T, opts ...Option) *SystemTimer {
	t.Helper()
	timer, err := NewSystemTimer(opts...)
	require.NoError(t, err)
	timer.Start()
	t.Cleanup(func() { timer.Stop() })
	return timer
}

// heldJob is a Job whose work is done when leave is closed.
type heldJob struct {
	workers.Job
	leave chan struct{}
}

func (j heldJob) Work() bool { <-j.leave; return j.Job.Work() }

// holdWorkers keeps the workers of t from doing anything until the test ends. Call it before t is used.
func holdWorkers(t testing.TB, timer *SystemTimer) {
	leave := make(chan struct{})
	timer.pool.Init(1, heldJob{(*expiries)(timer), leave})
	t.Cleanup(func() { close(leave) })
}

// The driver finds that the time until which it is about to sleep has passed, because its
// machine has stalled. It goes on, unless it was stopped meanwhile.
func TestADriverThatOversleepsBeforeItSleeps(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(timer *SystemTimer, stop chan struct{})
		due       bool
	}{
		"a stall":                        {func(*SystemTimer, chan struct{}) {}, true},
		"the caller stops it":            {func(_ *SystemTimer, stop chan struct{}) { close(stop) }, false},
		"the timer stops":                {func(timer *SystemTimer, _ chan struct{}) { timer.Stop() }, false},
		"the timer and the caller do so": {func(timer *SystemTimer, stop chan struct{}) { timer.Stop(); close(stop) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer, err := NewSystemTimer(WithShards(1))
				require.NoError(t, err)
				defer timer.Stop()
				tt := newTask(nil)
				addIn(t, timer, tt, time.Second)
				stop := make(chan struct{})
				var readings atomic.Int32
				timer.clock = spied{timer, func() time.Duration {
					switch readings.Add(1) {
					case 1, 2: // at first, and before it looks at the wheels
						return time.Millisecond
					case 3:
						c.meanwhile(timer, stop)
					}
					return time.Minute
				}, timer.need}
				assert.Equal(t, c.due, timer.AdvanceClockUntil(stop, time.Hour))
				synctest.Wait()
				assert.Equal(t, c.due, tt.runs.Load() == 1)
			})
		})
	}
}

func TestSystemTimerIsNeverEarlyAndLateByATickAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t)
		var ran atomic.Int64        // atomic, because tasks of one tick may run on two workers
		time.Sleep(time.Nanosecond) // so that the first deadline is not clamped to 1 ns
		for i := range 200 {
			d := time.Duration(i*i*i) * 37 * time.Microsecond // up to 5 minutes
			tt := newTask(nil)
			tt.f = func() {
				ran.Add(1)
				late := timer.Now() - tt.Deadline()
				assert.GreaterOrEqual(t, late, time.Duration(0), "early")
				assert.LessOrEqual(t, late, time.Millisecond)
			}
			addIn(t, timer, tt, d)
			time.Sleep(113 * time.Microsecond)
		}
		settle(time.Hour)
		assert.EqualValues(t, 200, ran.Load())
	})
}

func TestSystemTimerExpiresAtOnceOffTheCallersGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t)
		for _, d := range []time.Duration{0, -1, math.MinInt64} {
			start := timer.Now()
			done := make(chan time.Duration) // unbuffered: the task can only finish on another goroutine
			addIn(t, timer, newTask(func() { done <- timer.Now() }), d)
			assert.Equal(t, start, <-done, "%d", d)
		}
	})
}

func TestAdvanceClockWaitsUntilSomethingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer()
		require.NoError(t, err)
		defer timer.Stop()
		tt := newTask(nil)
		addIn(t, timer, tt, time.Second)

		assert.False(t, timer.AdvanceClock(0))
		assert.False(t, timer.AdvanceClock(-time.Second))
		assert.Zero(t, timer.Now())
		assert.False(t, timer.AdvanceClock(400*time.Millisecond))
		assert.Equal(t, 400*time.Millisecond, timer.Now())
		assert.True(t, timer.AdvanceClock(time.Hour))
		assert.Equal(t, time.Second, timer.Now())
		synctest.Wait()
		assert.EqualValues(t, 1, tt.runs.Load())
		assert.False(t, timer.AdvanceClock(math.MaxInt64>>20))

		now := timer.Now().Truncate(time.Millisecond)
		settle(now + time.Millisecond - timer.Now())
		addIn(t, timer, tt, time.Millisecond)
		assert.True(t, timer.AdvanceClock(3*time.Millisecond/2))
		assert.Equal(t, now+2*time.Millisecond, timer.Now(), "in the tick in which d ends")
	})
}

// Each reading of the clock is later than the last, so the time to sleep until has passed
// when the driver goes to sleep.
func TestADriverDoesNotSleepPastItsWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer()
		require.NoError(t, err)
		defer timer.Stop()
		readings := time.Duration(0)
		timer.clock = spied{timer, func() time.Duration { readings++; return timer.read() + readings*time.Millisecond }, timer.need}
		require.NoError(t, timer.AddAt(&newTask(nil).TaskEntry, 0, 5*time.Millisecond))
		assert.True(t, timer.AdvanceClock(time.Hour))
	})
}

func TestAdvanceClockTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer()
		require.NoError(t, err)
		defer timer.Stop()
		addIn(t, timer, newTask(nil), time.Minute)
		driving := make(chan bool)
		go func() { driving <- timer.AdvanceClock(time.Hour) }()
		synctest.Wait()
		assert.False(t, timer.AdvanceClock(0))
		assert.False(t, timer.AdvanceClock(time.Second), "another goroutine is the driver")
		assert.Equal(t, time.Second, timer.Now())
		assert.True(t, <-driving)

		addIn(t, timer, newTask(nil), time.Minute)
		go func() { driving <- timer.AdvanceClock(time.Second) }()
		synctest.Wait()
		assert.True(t, timer.AdvanceClock(time.Hour), "drives when the other has ended")
		assert.False(t, <-driving)
	})
}

func TestStopEndsAdvanceClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer()
		require.NoError(t, err)
		ended := make(chan bool, 2)
		for range 2 { // the driver, and a goroutine that waits to be the driver
			go func() { ended <- timer.AdvanceClock(math.MaxInt64) }()
		}
		synctest.Wait()
		timer.Stop()
		assert.False(t, <-ended)
		assert.False(t, <-ended)
		assert.Zero(t, timer.Now())
		assert.False(t, timer.AdvanceClock(math.MaxInt64), "after Stop it does not wait")
	})
}

func TestStartTwiceOrAfterStopDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, readings := newCounted(t)
		readings.Store(0)
		timer.Start()
		synctest.Wait()
		assert.Zero(t, readings.Load(), "no second goroutine waits to be the driver")
		timer.Stop()
		timer.Start()
		other, err := NewSystemTimer()
		require.NoError(t, err)
		other.Stop()
		other.Start() // its goroutine ends at once; otherwise the bubble would not end
	})
}

func TestStopReturnsTheTasksThatHaveNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t, WithWorkers(1))
		hold := make(chan struct{})
		running, due, far := newTask(func() { <-hold }), newTask(nil), newTask(nil)
		fired, cancelled := newTask(nil), newTask(nil)
		addIn(t, timer, fired, time.Second)
		addIn(t, timer, cancelled, time.Hour)
		addIn(t, timer, far, time.Duration(math.MaxInt64))
		settle(2 * time.Second)
		timer.Cancel(&cancelled.TaskEntry)
		addIn(t, timer, running, time.Second)
		settle(2 * time.Second)
		addIn(t, timer, due, 0) // the only worker is blocked
		synctest.Wait()
		assert.Equal(t, 2, timer.Pending(), "what is due counts until a worker has it")
		assert.False(t, timer.Idle())

		assert.ElementsMatch(t, []any{due, far}, timer.Stop())
		assert.Empty(t, timer.Stop())
		assert.Zero(t, timer.Pending())
		assert.False(t, timer.Idle(), "one still runs")
		require.ErrorIs(t, timer.AddAt(&due.TaskEntry, 0, 1), ErrStopped)
		close(hold)
		settle(time.Hour)
		assert.True(t, timer.Idle())
		assert.Zero(t, due.runs.Load()+far.runs.Load()+cancelled.runs.Load())
		assert.EqualValues(t, 2, running.runs.Load()+fired.runs.Load())
		checkInvariants(t, &timer.store, nil)
	})
}

func TestAfterStopNothingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, err := NewSystemTimer()
		require.NoError(t, err)
		holdWorkers(t, timer)
		tt := newTask(nil)
		addIn(t, timer, tt, 0)
		assert.True(t, timer.anyReady())
		assert.Equal(t, []any{tt}, timer.Stop())
		assert.False(t, timer.anyReady(), "although no worker has looked")
	})
}

func TestStopFromATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t)
		var unfired []any
		far := newTask(nil)
		addIn(t, timer, far, time.Hour)
		addIn(t, timer, newTask(func() { unfired = timer.Stop() }), time.Second)
		settle(2 * time.Hour)
		assert.Equal(t, []any{far}, unfired)
		assert.Zero(t, far.runs.Load())
	})
}

// The clock is monotonic, so a step of the wall clock does not affect it.
func TestClockIsMonotonic(t *testing.T) {
	timer, err := NewSystemTimer()
	require.NoError(t, err)
	defer timer.Stop()
	assert.Contains(t, timer.base.String(), " m=", "the start has lost its monotonic reading")
	before := timer.Now()
	assert.GreaterOrEqual(t, timer.Now(), before)
}

func TestTooManyTimersIsWarnedOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard bytes.Buffer
		goOn := make(chan struct{})
		logger := slog.New(slow{slog.NewTextHandler(&heard, nil), goOn})
		warnedMany.Store(false)
		before := live.Load()
		t.Cleanup(func() { assert.Equal(t, before, live.Load(), "stopped timers are not counted, once each") })
		newTimer := func(l *slog.Logger) {
			timer, err := NewSystemTimer(WithShards(1), func(c *config) { c.logger = l })
			require.NoError(t, err)
			t.Cleanup(func() { timer.Stop(); timer.Stop() })
			if timer.AdvanceClock(0); rand.N(2) == 0 {
				timer.AdvanceClock(0)
			}
			synctest.Wait()
		}
		for range 2 * tooManyTimers { // nobody drives them
			_, err := NewSystemTimer(WithLogger(logger), WithShards(1))
			require.NoError(t, err)
		}
		stopped, err := NewSystemTimer(WithLogger(logger), WithShards(1))
		require.NoError(t, err)
		stopped.Stop()
		stopped.AdvanceClock(0) // too late
		require.Less(t, live.Load(), int64(tooManyTimers))
		for live.Load() < tooManyTimers {
			newTimer(logger)
		}
		newTimer(nil) // which has nowhere to warn, and does not use up the one warning
		assert.False(t, warnedMany.Load(), "%d timers are not too many, and nobody has heard of more", tooManyTimers)
		for range 5 {
			newTimer(logger) // which blocks, and holds up no clock
		}
		assert.Empty(t, heard.String())
		close(goOn)
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(heard.String(), "purgatory.timers.many"))
	})
}

// slow is a handler that takes no record before goOn is closed.
type slow struct {
	slog.Handler
	goOn chan struct{}
}

func (s slow) Handle(ctx context.Context, r slog.Record) error {
	<-s.goOn
	return s.Handler.Handle(ctx, r)
}
