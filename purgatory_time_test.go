package purgatory_test

import (
	"errors"
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

// Timeouts, as seen through the purgatory; the wheels are tested in package timer.

func TestATimeoutIsNeverEarlyAndAtMostOneTickLate(t *testing.T) {
	for _, tick := range []time.Duration{1, time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p, err := purgatory.New[string]("test", purgatory.WithTick(tick), purgatory.WithWheelSize(4))
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

func TestATimeoutOfZeroOrLessIsOneTryThenExpiryElsewhere(t *testing.T) {
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
			assert.EqualValues(t, 1, o.tries.Load())
			assert.False(t, here.Load(), "never on the caller's goroutine")
			satisfied := &op{try: func() bool { return true }}
			completed, err := p.TryCompleteElseWatch(satisfied, timeout, "a")
			require.NoError(t, err)
			assert.True(t, completed, "the one try counts")

			q := onManualClock[string](t)
			o = &op{}
			submit(t, q, o, timeout, "a")
			pending(t, o)
			assert.True(t, q.AdvanceClock(0), "whoever moves the clock")
			ended(t, o, operation.Expired)
		})
	}
}

// goroutine returns what tells this goroutine from others.
func goroutine() string {
	var b [64]byte
	return string(b[:runtime.Stack(b[:], false)][:20])
}

func TestTheLongestTimeoutIsInEffectNever(t *testing.T) {
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

func TestTheManualClockExpiresWhatIsDueAndNothingElse(t *testing.T) {
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
		pending(t, o) // nobody drives it
		assert.True(t, p.AdvanceClock(200*time.Millisecond))
		synctest.Wait()
		ended(t, o, operation.Expired)
		start := time.Now()
		assert.False(t, p.AdvanceClock(200*time.Millisecond))
		assert.Equal(t, 200*time.Millisecond, time.Since(start), "nothing to do: it waits as long as it may")
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestAnExecutorRunsWhatTheWorkersWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var submitted, running, most atomic.Int32
		p, err := purgatory.New[string]("test", purgatory.WithExpiryWorkers(2), purgatory.WithExecutor(func(run func()) error {
			submitted.Add(1)
			go func() {
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				run()
				running.Add(-1)
			}()
			return nil
		}))
		require.NoError(t, err)
		var met atomic.Bool
		for range 100 {
			submit(t, p, &op{}, time.Second, "a")
			submit(t, p, until(&met), hour, "b")
		}
		met.Store(true)
		p.Signal("b")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 100, p.Stats().Expired)
		assert.EqualValues(t, 100, p.Stats().Satisfied)
		assert.Positive(t, submitted.Load())
		assert.LessOrEqual(t, most.Load(), int32(4), "at most twice the number of workers")
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestWhatAnExecutorRefusesIsOfferedAgain(t *testing.T) {
	refusals := map[string]func() error{
		"full":   func() error { return errors.New("full") },
		"panics": func() error { panic("of the executor's") },
	}
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var full atomic.Bool
				var told panics
				full.Store(true)
				p, err := purgatory.New[string]("test", told.option(), purgatory.WithExecutor(func(run func()) error {
					if full.Load() {
						return refuse()
					}
					go run()
					return nil
				}))
				require.NoError(t, err)
				var met atomic.Bool
				expiring, atOnce, signalled := &op{}, &op{}, until(&met)
				submit(t, p, expiring, time.Second, "a")
				submit(t, p, atOnce, 0, "a")
				submit(t, p, signalled, hour, "b")
				met.Store(true)
				assert.NotPanics(t, func() { p.Signal("b") })
				time.Sleep(10 * time.Second)
				synctest.Wait()
				for _, o := range []*op{expiring, atOnce, signalled} {
					pending(t, o)
				}
				full.Store(false)
				time.Sleep(300 * time.Millisecond) // a reap
				synctest.Wait()
				ended(t, expiring, operation.Expired)
				ended(t, atOnce, operation.Expired)
				ended(t, signalled, operation.Satisfied)
				assert.Equal(t, name == "panics", told.n.Load() > 0)
				require.NoError(t, p.Shutdown(t.Context()))
			})
		})
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
			var last time.Duration
			for _, move := range moves {
				assert.True(t, p.Extend(o, move))
				last = move
			}
			if last > time.Millisecond {
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

func TestExtendByNothingExpiresAtOnceOnAWorker(t *testing.T) {
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

func TestExtendSaysNoToWhatHasEndedOrIsNotAcceptedYet(t *testing.T) {
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

func TestExtendAgainstExpiryIsDecidedOnce(t *testing.T) {
	// Heartbeats race expiries: each that was in time postpones the expiry, the
	// first that was not finds the operation ended or about to end.
	p := open[int](t, purgatory.WithTick(20*time.Microsecond))
	const rounds = 100
	var inTime, tooLate atomic.Int64
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for i := range rounds {
				var promised time.Duration // not before this
				var expiredAt atomic.Int64
				started := time.Now()
				o := &op{expire: func() { expiredAt.Store(int64(time.Since(started))) }}
				timeout := time.Duration(20+i%60) * time.Microsecond
				_, err := p.TryCompleteElseWatch(o, timeout, g)
				assert.NoError(t, err)
				for range 2000 {
					now := time.Since(started)
					if !p.Extend(o, timeout) {
						tooLate.Add(1)
						break
					}
					promised = now + timeout // from a moment before the call on
					inTime.Add(1)
					runtime.Gosched()
				}
				eventually(t, func() bool { return expiredAt.Load() > 0 }, "it expires in the end")
				assert.GreaterOrEqual(t, expiredAt.Load(), int64(promised), "expired although extended in time")
				assert.False(t, p.Extend(o, hour))
				ended(t, o, operation.Expired)
			}
		})
	}
	wg.Wait()
	empty(t, p)
	assert.EqualValues(t, 2*rounds, conserved(t, p).Expired)
	t.Logf("%d in time, %d too late", inTime.Load(), tooLate.Load())
}

func TestAMillionHeartbeatsAndOneExpiry(t *testing.T) {
	p := onManualClock[string](t)
	o := &op{}
	submit(t, p, o, time.Second, "member")
	beats := 1_000_000
	if testing.Short() {
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

func TestExtendAllocatesNothing(t *testing.T) {
	p := onManualClock[string](t)
	o := submitted(t, p, "a")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { p.Extend(o, 2*hour) }))
	assert.Zero(t, testing.AllocsPerRun(1000, func() { p.Extend(o, hour); p.Extend(o, 2*hour) }))
}
