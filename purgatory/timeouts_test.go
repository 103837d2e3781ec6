package purgatory_test

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

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// Timeouts of operations. Package timer tests the wheels.

// The first deadline of an operation without a timeout starts the reaper, without which nothing would expire.
func TestExtendStartsTheReaper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[int](t)
		o := &op{}
		submit(t, p, o, purgatory.NoTimeout, 1)
		require.False(t, p.Reaping(), "nothing can expire")
		require.True(t, p.Extend(o, time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		ended(t, o, operation.Expired)
	})
}

func TestATimeoutIsNeverEarlyAndAtMostOneTickLate(t *testing.T) {
	for _, tick := range []time.Duration{time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p, err := purgatory.New[string]("test", purgatory.WithTick(tick))
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

func TestManyExpiriesDoNotDisturbRegistrations(t *testing.T) {
	const registering = 4
	ops := howMany(100_000, 30_000)
	p := open[int](t)
	var expired, second atomic.Int64
	for i := range ops / 2 {
		submit(t, p, &op{expire: func() { expired.Add(1) }}, 50*time.Millisecond, i%1000)
	}
	var group sync.WaitGroup
	for g := range registering {
		group.Go(func() {
			for i := g; i < ops/2; i += registering {
				o := &op{complete: func() { second.Add(1) }}
				_, err := p.TryCompleteElseWatch(o, hour, i%1000, -1-i)
				assert.NoError(t, err)
				if i%3 == 0 {
					p.CancelForKey(-1-i, nil)
				}
			}
		})
	}
	group.Wait()
	eventually(t, func() bool { return expired.Load() == int64(ops/2) }, "all of the first half expire")
	s := p.Stats()
	assert.EqualValues(t, ops/2, s.Expired)
	assert.EqualValues(t, ops, s.Accepted)
	assert.Equal(t, s.Cancelled, second.Load())
	require.NoError(t, p.Close())
	eventually(t, func() bool { return second.Load() == int64(ops/2) }, "all of the second half are answered")
	empty(t, p)
}

// The timeout counts from the registration, however long its second try takes.
func TestASlowTryMovesNoDeadline(t *testing.T) {
	for _, slow := range []time.Duration{0, time.Second, 3 * time.Second, 4500 * time.Millisecond, 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const timeout = 5 * time.Second
			p, err := purgatory.New[string]("test")
			require.NoError(t, err)
			defer p.Close()
			var took time.Duration
			start := time.Now()
			o := &op{expire: func() { took = time.Since(start) }}
			o.try = func() bool {
				if o.tries.Load() == 2 {
					time.Sleep(slow)
					submitted(t, p, "another")
				}
				return false
			}
			_, err = p.TryCompleteElseWatch(o, timeout, "key")
			require.NoError(t, err)
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.GreaterOrEqual(t, took, timeout)
			assert.LessOrEqual(t, took, max(timeout, slow)+time.Millisecond, "a try that took %s", slow)
		})
	}
}

// A purgatory for each partition, store or index: on a timer that they share, they have no
// goroutine, before and after an operation has waited there, and Close leaves nothing.
func TestTenThousandPurgatoriesOnOneTimer(t *testing.T) {
	shared, err := timer.NewSystemTimer()
	require.NoError(t, err)
	shared.Start()
	defer shared.Stop()
	before := runtime.NumGoroutine()
	all := make([]*purgatory.Purgatory[string], 10_000)
	for i := range all {
		all[i], err = purgatory.New[string]("partition", purgatory.WithTimer(shared), purgatory.WithoutReaper())
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
	for _, p := range all {
		submit(t, p, &op{}, hour, "a")
	}
	assert.True(t, inTime(func() bool { return runtime.NumGoroutine() <= before }), "a worker may stand in for a late driver")
	assert.Equal(t, len(all), shared.Pending())
	for _, p := range all[1:] {
		require.NoError(t, p.Close())
	}
	assert.Equal(t, 1, shared.Pending(), "that of the one which is open")
	assert.Equal(t, 1, all[0].NumDelayed())
	require.NoError(t, all[0].Close())
	for _, p := range all {
		require.Zero(t, p.NumDelayed())
		require.NoError(t, p.Shutdown(t.Context()))
	}
}

func TestExtendMovesTheDeadline(t *testing.T) {
	for name, moves := range map[string][]time.Duration{
		"later":               {10 * time.Second},
		"earlier":             {time.Millisecond},
		"later, then earlier": {hour, 3 * time.Second},
		"earlier, then later": {time.Millisecond, hour},
		"as it was":           {time.Second},
		"to the end of time":  {math.MaxInt64, 7 * time.Second},
		"back and forth":      {hour, 2, hour, 2 * time.Second, 30 * hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			o := &op{}
			submit(t, p, o, time.Second, "a", "b")
			p.AdvanceClock(500 * time.Millisecond)
			for _, move := range moves {
				assert.True(t, p.Extend(o, move))
				p.AdvanceClock(0) // it has not expired
			}
			if last := moves[len(moves)-1]; last > time.Millisecond {
				p.AdvanceClock(last - 1)
				pending(t, o)
			}
			p.AdvanceClock(time.Millisecond)
			ended(t, o, operation.Expired)
			assert.False(t, p.Extend(o, hour), "it has ended")
			p.AdvanceClock(100 * hour)
			ended(t, o, operation.Expired)
		})
	}
}

func TestExtendByZeroExpiresAtOnceOnAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("test")
		require.NoError(t, err)
		for _, timeout := range []time.Duration{0, -1, math.MinInt64} {
			o := &op{}
			submit(t, p, o, hour, "a")
			assert.True(t, p.Extend(o, timeout))
			time.Sleep(time.Millisecond)
			synctest.Wait()
			ended(t, o, operation.Expired)
		}
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestExtendReturnsFalseForEndedOrUnacceptedOperations(t *testing.T) {
	p := onManualClock[string](t)
	var during bool
	o := &op{}
	o.try = func() bool { during = during || p.Extend(o, hour); return false }
	assert.False(t, p.Extend(o, hour))
	submit(t, p, o, time.Second, "a")
	assert.False(t, during, "still registering")
	p.CheckAndComplete("a")
	assert.True(t, during, "inside a check it is in time")
	o.complete = func() { assert.False(t, p.Extend(o, hour)) }
	p.AdvanceClock(hour)
	ended(t, o, operation.Expired)
	for name, end := range map[string]func(o *op){
		"forced":    func(o *op) { p.ForceComplete(o) },
		"cancelled": func(o *op) { p.Cancel(o, nil) },
		"satisfied": func(o *op) { o.try = func() bool { return true }; p.CheckAndComplete("a") },
	} {
		o := submitted(t, p, "a")
		end(o)
		assert.False(t, p.Extend(o, hour), name)
	}
}

func TestAMillionExtendsCauseOneExpiry(t *testing.T) {
	p := onManualClock[string](t)
	o := &op{}
	submit(t, p, o, time.Second, "member")
	beats := 1_000_000
	if purgatory.RaceDetector || testing.Short() {
		beats /= 10
	}
	for i := range beats {
		if !p.Extend(o, time.Second) {
			require.FailNow(t, "too late", "heartbeat %d", i)
		}
		if i%16 == 0 {
			p.AdvanceClock(900 * time.Millisecond)
		}
	}
	pending(t, o)
	p.AdvanceClock(time.Second)
	ended(t, o, operation.Expired)
	empty(t, p)
}

// A timer that is passed in is driven although no operation waits: it may have other users.
func TestATimerThatIsPassedInIsDriven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := timer.NewSystemTimer()
		require.NoError(t, err)
		p, err := purgatory.New[string]("test", purgatory.WithTimer(shared))
		require.NoError(t, err)
		fired := make(chan struct{})
		_, err = shared.AfterFunc(time.Second, func() { close(fired) })
		require.NoError(t, err)
		<-fired
		require.NoError(t, p.Shutdown(t.Context()))
		shared.Stop()
	})
}

// Another goroutine may call Extend at any moment of a registration: it returns false until that is over, and then moves the deadline.
func TestExtendMeetsARegistration(t *testing.T) {
	p := onManualClock[string](t)
	for range 200 {
		o := &op{}
		begun := make(chan struct{})
		wait := inBackground(func() {
			close(begun)
			for !p.Extend(o, 2*hour) {
				runtime.Gosched()
			}
		})
		<-begun
		submit(t, p, o, time.Minute, "a")
		wait()
		p.AdvanceClock(time.Minute)
		pending(t, o)
		p.ForceComplete(o)
	}
}
