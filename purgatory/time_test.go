package purgatory_test

import (
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// Timeouts of operations. Package timer tests the wheels.

func TestATimeoutIsNeverEarlyAndAtMostOneTickLate(t *testing.T) {
	for _, tick := range []time.Duration{time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p, err := purgatory.New[string]("test", purgatory.WithTick(tick), purgatory.WithTimerOptions(timer.WithWheelSize(4)))
			require.NoError(t, err)
			for i, timeout := range []time.Duration{1, time.Microsecond + 3, time.Millisecond - 1, time.Millisecond, 43 * time.Millisecond, 237*time.Millisecond + 7, hour + 1} {
				time.Sleep(time.Duration(i) * 12345)
				start := time.Now()
				var took time.Duration
				o := &op{complete: func() { took = time.Since(start) }}
				submit(t, p, o, timeout, "a")
				time.Sleep(timeout - 1)
				synctest.Wait()
				pending(t, o)
				time.Sleep(tick + 1)
				synctest.Wait()
				ended(t, o, operation.Expired)
				assert.GreaterOrEqual(t, took, timeout)
				assert.LessOrEqual(t, took, timeout+tick)
			}
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}

// A zero timeout spares no operation the second try: Extend may keep it pending, and a check
// that came before it was watched has not found it.
func TestAZeroTimeoutTriesTwiceThenExpires(t *testing.T) {
	for _, timeout := range []time.Duration{0, -1, math.MinInt64} {
		t.Run(timeout.String(), func(t *testing.T) {
			p := open[string](t)
			var submitting, here atomic.Bool
			o := &op{}
			id := goroutine()
			o.complete = func() { here.Store(goroutine() == id) }
			submitting.Store(true)
			submit(t, p, o, timeout, "a", "b")
			submitting.Store(false)
			eventually(t, func() bool { return o.expired.Load() == 1 }, "expiry without waiting")
			ended(t, o, operation.Expired)
			assert.EqualValues(t, 2, o.tries.Load())
			assert.False(t, here.Load(), "never on the caller's goroutine")
			tries := 0
			satisfied := &op{try: func() bool { tries++; return tries == 2 }}
			completed, err := p.TryCompleteElseWatch(satisfied, timeout, "a")
			require.NoError(t, err)
			assert.True(t, completed, "it came true during the registration")

			q := onManualClock[string](t)
			o = &op{}
			submit(t, q, o, timeout, "a")
			pending(t, o)
			assert.True(t, q.AdvanceClock(0), "whoever moves the clock")
			ended(t, o, operation.Expired)
		})
	}
}

// goroutine returns the runtime's name of the calling goroutine.
func goroutine() string {
	var b [64]byte
	return string(b[:runtime.Stack(b[:], false)][:20])
}

func TestTheLongestTimeoutNeverPasses(t *testing.T) {
	p := onManualClock[string](t)
	p.AdvanceClock(hour)
	var all []*op
	for _, timeout := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - hour} {
		o := &op{}
		submit(t, p, o, timeout, "a")
		all = append(all, o)
	}
	for range 100 {
		p.AdvanceClock(365 * 24 * hour)
	}
	for _, o := range all {
		pending(t, o)
	}
	assert.Equal(t, 3, p.CancelForKey("a", nil))
	empty(t, p)
}

func TestTheManualClockExpiresOnlyWhatIsDue(t *testing.T) {
	p := onManualClock[string](t)
	early, late := &op{}, &op{}
	submit(t, p, early, time.Second, "a")
	submit(t, p, late, 2*time.Second, "a")
	assert.False(t, p.AdvanceClock(time.Second-1))
	pending(t, early)
	assert.True(t, p.AdvanceClock(1))
	ended(t, early, operation.Expired)
	pending(t, late)
	assert.True(t, p.AdvanceClock(10*hour), "after a stall, in one go")
	ended(t, late, operation.Expired)
}

func TestATimerMayBeSharedByPurgatories(t *testing.T) {
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, q := open[string](t, purgatory.WithTimer(clock)), open[int](t, purgatory.WithTimer(clock))
	a, b, c := &op{}, &op{}, &op{}
	submit(t, p, a, time.Second, "a")
	submit(t, q, b, time.Second, 1)
	submit(t, q, c, 2*time.Second, 1)
	assert.Equal(t, 3, clock.Pending())
	assert.True(t, q.AdvanceClock(time.Second), "one moves the clock of both")
	ended(t, a, operation.Expired)
	ended(t, b, operation.Expired)
	require.NoError(t, p.Close())
	d := &op{}
	submit(t, q, d, time.Second, 1)
	clock.AdvanceClock(time.Second)
	ended(t, c, operation.Expired)
	ended(t, d, operation.Expired)
	assert.Zero(t, clock.Pending())
}

func TestASystemTimerMayBeSharedAndIsNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, err := timer.NewSystemTimer()
		require.NoError(t, err)
		p, err := purgatory.New[string]("one", purgatory.WithTimer(clock))
		require.NoError(t, err)
		q, err := purgatory.New[string]("two", purgatory.WithTimer(clock), purgatory.WithoutReaper())
		require.NoError(t, err)
		a, b := &op{}, &op{}
		submit(t, p, a, time.Second, "a")
		submit(t, q, b, time.Second, "a")
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		ended(t, a, operation.Expired)
		ended(t, b, operation.Expired) // p's reaper drives the clock of both
		require.NoError(t, p.Shutdown(t.Context()))
		clock.Start()
		c := &op{}
		submit(t, q, c, time.Second, "a")
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		ended(t, c, operation.Expired)
		require.NoError(t, q.Shutdown(t.Context()))
		clock.Stop()
	})
}

func TestATimerThatIsFullOrStoppedRefuses(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		clock, err := timer.NewManualTimer(timer.WithMaxPending(1))
		require.NoError(t, err)
		p := open[string](t, purgatory.WithTimer(clock))
		first := submitted(t, p, "a")
		o := &op{}
		_, err = p.TryCompleteElseWatch(o, timeout, "a", "b")
		require.ErrorIs(t, err, purgatory.ErrFull)
		require.ErrorIs(t, err, timer.ErrFull)
		pending(t, o)
		assert.Equal(t, []int{1, 1}, []int{p.NumDelayed(), p.Watched()})
		assert.True(t, p.ForceComplete(first))
		submit(t, p, &op{}, timeout, "a")
		clock.Stop()
		o = &op{}
		_, err = p.TryCompleteElseWatch(o, timeout, "a")
		require.ErrorIs(t, err, purgatory.ErrClosed)
		require.ErrorIs(t, err, timer.ErrStopped)
		pending(t, o)
		assert.Equal(t, 1, p.CancelForKey("a", nil))
		empty(t, p)
	}
}

func TestWithoutAReaperTheClockIsAdvancedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("test", purgatory.WithoutReaper())
		require.NoError(t, err)
		o := &op{}
		submit(t, p, o, time.Second, "a")
		time.Sleep(hour)
		synctest.Wait()
		pending(t, o) // no goroutine drives the timer
		assert.True(t, p.AdvanceClock(200*time.Millisecond))
		synctest.Wait()
		ended(t, o, operation.Expired)
		start := time.Now()
		assert.False(t, p.AdvanceClock(200*time.Millisecond))
		assert.Equal(t, 200*time.Millisecond, time.Since(start), "nothing to do: it waits as long as it may")
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// In a bubble of testing/synctest a test of timeouts on the system's clock takes no time.
func TestTimeoutsWorkInASynctestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("produce")
		require.NoError(t, err)
		defer p.Close()
		var highWatermark atomic.Int64
		late := &op{try: func() bool { return highWatermark.Load() >= 20 }}
		early := &op{try: func() bool { return highWatermark.Load() >= 10 }}
		submit(t, p, late, 30*time.Second, "orders-0")
		submit(t, p, early, 30*time.Second, "orders-0")

		time.Sleep(29 * time.Second)
		highWatermark.Store(10)
		assert.Equal(t, 1, p.CheckAndComplete("orders-0"))
		ended(t, early, operation.Satisfied)

		time.Sleep(time.Second + time.Millisecond) // the timeout, and a tick
		synctest.Wait()
		ended(t, late, operation.Expired)
	})
}
