package purgatory_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
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

// A wait that is refused because ready has closed the purgatory does not count as answered:
// Shutdown compares the accepted waits with the answered ones.
func TestShutdownReturnsAfterAReadyThatClosesThePurgatory(t *testing.T) {
	for _, met := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := onManualClock[string](t)
			err := p.Await(t.Context(), 0, func() bool { _ = p.Close(); return met }, "a")
			if met {
				require.NoError(t, err, "a yes wins")
			} else {
				require.ErrorIs(t, err, purgatory.ErrClosed)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, p.Shutdown(ctx))
		})
	}
}

// After Shutdown with a context that has ended no operation is pending, however many
// callbacks block.
func TestShutdownWithAnEndedContextLeavesNothingPending(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	for range 200 {
		p := open[int](t, purgatory.WithWatcherShards(4), purgatory.WithDrainTime(0))
		release := make(chan struct{})
		all := make([]*op, 50)
		for i := range all {
			o := &op{complete: func() { <-release }}
			all[i] = o
			submit(t, p, o, hour, i%7)
		}
		require.ErrorIs(t, p.Shutdown(ctx), errGone)
		for _, o := range all {
			require.Equal(t, operation.Closed, o.Outcome())
		}
		require.Zero(t, p.NumDelayed())
		close(release)
		require.NoError(t, p.Shutdown(t.Context()), "it waits for the callbacks")
		for _, o := range all {
			ended(t, o, operation.Closed)
		}
	}
}

// If a callback blocks a Close, a later Shutdown ends the other operations.
func TestShutdownEndsOperationsThatABlockedCloseLeft(t *testing.T) {
	p := open[int](t, purgatory.WithWatcherShards(64))
	release := make(chan struct{})
	var blocked atomic.Int32
	all := make([]*op, 500)
	for i := range all {
		all[i] = &op{complete: func() { blocked.Add(1); <-release }}
		submit(t, p, all[i], hour, i)
	}
	wait := inBackground(func() { assert.NoError(t, p.Close()) })
	eventually(t, func() bool { return blocked.Load() > 0 }, "Close is held up")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Shutdown(ctx))
	assert.Zero(t, p.NumDelayed())
	close(release)
	wait()
	require.NoError(t, p.Shutdown(t.Context()))
	for _, o := range all {
		ended(t, o, operation.Closed)
	}
}

// Shutdown reads the shards one after the other, while operations end in one shard and
// others are registered in the next. Each that was accepted before Shutdown ends in its own
// way, and its callbacks run before Shutdown returns.
func TestShutdownMissesNoOperationWhileOthersComeAndGo(t *testing.T) {
	for range 20 {
		p := open[int](t, purgatory.WithWatcherShards(1024))
		var accepted, answered, closed atomic.Int64
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					var met atomic.Bool
					o := until(&met)
					o.complete = func() {
						if o.Outcome() == operation.Closed {
							closed.Add(1)
						}
						runtime.Gosched()
						answered.Add(1)
					}
					key := (g*7919 + i*31) % 5000
					if _, err := p.TryCompleteElseWatch(o, hour, key); err != nil {
						assert.ErrorIs(t, err, purgatory.ErrClosed)
						return
					}
					accepted.Add(1)
					met.Store(true)
					p.CheckAndComplete(key)
				}
			})
		}
		eventually(t, func() bool { return accepted.Load() > 50 }, "it is busy")
		require.NoError(t, p.Shutdown(t.Context()))
		done := answered.Load()
		wg.Wait()
		assert.Equal(t, accepted.Load(), done, "a callback after Shutdown had returned")
		assert.Zero(t, closed.Load(), "they had time left")
	}
}

func TestShutdownOnASharedTimerDoesNotWaitForTheReaper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, err := timer.NewSystemTimer()
		require.NoError(t, err)
		defer clock.Stop()
		for range 2 { // one reaper drives, the other waits to be the driver
			p, err := purgatory.New[int]("test", purgatory.WithTimer(clock), purgatory.WithReapInterval(3*time.Second))
			require.NoError(t, err)
			defer func() {
				before := time.Now()
				require.NoError(t, p.Shutdown(t.Context()))
				assert.Less(t, time.Since(before), 100*time.Millisecond, "of the bubble's time")
			}()
		}
		synctest.Wait()
	})
}

// over returns a context that has ended.
func over(t *testing.T) context.Context {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	end()
	return ctx
}

func TestShutdownWithAnEndedContextWaitsForNoCallback(t *testing.T) {
	for _, closing := range []bool{false, true} { // with and without a Close that a callback blocks
		synctest.Test(t, func(t *testing.T) {
			p := open[int](t)
			var release atomic.Bool
			g := make(chan struct{})
			for i := range 300 {
				submit(t, p, &op{complete: func() {
					if !release.Load() {
						<-g
					}
				}}, hour, i)
			}
			wait := func() {}
			if closing {
				wait = inBackground(func() { _ = p.Close() })
				eventually(t, func() bool { return p.Stats().Closed > 0 }, "Close has begun")
			}
			var err error
			var left int
			returned := make(chan struct{})
			go func() {
				defer close(returned)
				err = p.Shutdown(over(t))
				left = p.NumDelayed()
			}()
			select {
			case <-returned:
			case <-time.After(30 * time.Second):
				assert.Fail(t, "Shutdown waits for a callback")
			}
			release.Store(true)
			close(g)
			<-returned
			wait()
			require.ErrorIs(t, err, context.Canceled)
			assert.Zero(t, left, "pending at its return")
			require.NoError(t, p.Shutdown(t.Context()))
			assert.EqualValues(t, 300, p.Stats().Closed)
		})
	}
}

func TestShutdownWaitsForPendingOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("test")
		require.NoError(t, err)
		var met atomic.Bool
		satisfied, expiring := until(&met), &op{}
		submit(t, p, satisfied, hour, "a")
		submit(t, p, expiring, time.Second, "b")
		go func() {
			time.Sleep(500 * time.Millisecond)
			_, err := p.TryCompleteElseWatch(&op{}, hour, "a")
			assert.ErrorIs(t, err, purgatory.ErrClosed, "nothing new")
			met.Store(true)
			p.Signal("a") // Shutdown waits for signals, too
		}()
		start := time.Now()
		require.NoError(t, p.Shutdown(t.Context()))
		assert.GreaterOrEqual(t, time.Since(start), time.Second)
		assert.Less(t, time.Since(start), 2*time.Second)
		ended(t, satisfied, operation.Satisfied)
		ended(t, expiring, operation.Expired)
		empty(t, p)
	})
}

func TestShutdownClosesWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("test")
		require.NoError(t, err)
		o := submitted(t, p, "a")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGone)
		defer cancel()
		require.ErrorIs(t, p.Shutdown(ctx), errGone)
		synctest.Wait()
		ended(t, o, operation.Closed)
		require.NoError(t, p.Shutdown(t.Context()), "again, to wait for more")
		empty(t, p)
	})
}

func TestShutdownWaitsForEveryCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("test", purgatory.WithExpiryWorkers(2))
		require.NoError(t, err)
		var running atomic.Int32
		slow := func() { running.Add(1); time.Sleep(time.Minute); running.Add(-1) }
		var met atomic.Bool
		signalled := until(&met)
		signalled.complete = slow
		submit(t, p, signalled, hour, "a")
		for range 3 {
			submit(t, p, &op{expire: slow}, time.Second, "b")
		}
		met.Store(true)
		p.Signal("a")
		require.NoError(t, p.Shutdown(t.Context()))
		assert.Zero(t, running.Load())
		assert.EqualValues(t, 3, p.Stats().Expired)
	})
}

func TestAfterShutdownNoCallbackRuns(t *testing.T) {
	// The registration is in its first try when the purgatory shuts down.
	p := onManualClock[string](t)
	o := newHeldOp()
	proceed := o.holdInRegistration(p, 1, hour, "a")
	require.NoError(t, p.Shutdown(t.Context()))
	_, err := proceed(true)
	require.ErrorIs(t, err, purgatory.ErrClosed)
	pending(t, &o.op)
	assert.Zero(t, conserved(t, p).Accepted)
}

// Shutdown takes the operations that it ends out of a timer that others go on using, although
// it leaves their callbacks to workers.
func TestShutdownTakesWhatItEndsOutOfASharedTimer(t *testing.T) {
	for _, n := range []int{1, 2, 300} {
		clock, err := timer.NewManualTimer()
		require.NoError(t, err)
		p := open[int](t, purgatory.WithTimer(clock), purgatory.WithWatcherShards(1))
		for range n {
			submitted(t, p, 1)
		}
		require.Equal(t, n, clock.Pending())
		require.ErrorIs(t, p.Shutdown(over(t)), context.Canceled)
		assert.Zero(t, clock.Pending(), "of %d operations", n)
	}
}

// Shutdown looks again and again, but not ever more rarely.
func TestShutdownReturnsSoonAfterALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := onManualClock[string](t)
		o := submitted(t, p, "a")
		wait := inBackground(func() { assert.NoError(t, p.Shutdown(t.Context())) })
		time.Sleep(time.Minute)
		require.True(t, p.ForceComplete(o))
		before := time.Now()
		wait()
		assert.Less(t, time.Since(before), 100*time.Millisecond, "of the bubble's time")
	})
}

// Shutdown waits for whatever of the purgatory still runs, also when every operation has ended.
func TestShutdownWaitsForEverythingThatRuns(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, pause func()) (p *purgatory.DelayedOperationPurgatory[string]){
		"a worker of its timer": func(t *testing.T, pause func()) *purgatory.DelayedOperationPurgatory[string] {
			p, err := purgatory.New[string]("test")
			require.NoError(t, err)
			_, err = p.OwnTimer().AfterFunc(time.Second, pause)
			require.NoError(t, err)
			p.StartReaper()
			time.Sleep(2 * time.Second)
			return p
		},
		"a worker that has not begun": func(t *testing.T, pause func()) *purgatory.DelayedOperationPurgatory[string] {
			p := onManualClock[string](t)
			held := purgatory.HoldWorkers(t, p)
			go func() { pause(); held.Release() }()
			o := probed(t, p, time.Hour, "a")
			p.Signal("a")
			require.True(t, p.ForceComplete(o))
			return p
		},
		"a callback": func(t *testing.T, pause func()) *purgatory.DelayedOperationPurgatory[string] {
			p := onManualClock[string](t)
			o := &op{complete: pause}
			_, err := p.TryCompleteElseWatch(o, time.Hour, "a")
			require.NoError(t, err)
			go p.ForceComplete(o)
			return p
		},
		"a record of a stuck callback": func(t *testing.T, pause func()) *purgatory.DelayedOperationPurgatory[string] {
			p := onManualClock[string](t, purgatory.WithSlowCallback(time.Second), on(purgatory.EventStuck, pause))
			o := &op{complete: func() { time.Sleep(time.Minute) }}
			_, err := p.TryCompleteElseWatch(o, time.Hour, "a")
			require.NoError(t, err)
			go p.ForceComplete(o)
			time.Sleep(2 * time.Second)
			p.AdvanceClock(0)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leave := make(chan struct{})
				p := run(t, func() { <-leave })
				synctest.Wait()
				done := make(chan error, 1)
				go func() { done <- p.Shutdown(t.Context()) }()
				time.Sleep(10 * time.Minute)
				select {
				case err := <-done:
					t.Errorf("it has returned (%v)", err)
				default:
				}
				close(leave)
				assert.NoError(t, <-done)
			})
		})
	}
}

// A callback that is stuck while Shutdown waits for it is logged, though the reaper has ended.
func TestACallbackThatKeepsShutdownIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p, err := purgatory.New[string]("test", purgatory.WithSlowCallback(time.Second), purgatory.WithLogger(slog.New(&log)))
		require.NoError(t, err)
		leave := make(chan struct{})
		o := &op{complete: func() { <-leave }}
		_, err = p.TryCompleteElseWatch(o, time.Hour, "a")
		require.NoError(t, err)
		go p.ForceComplete(o)
		synctest.Wait()
		require.NoError(t, p.Close())
		done := make(chan error, 1)
		go func() { done <- p.Shutdown(t.Context()) }()
		time.Sleep(time.Minute)
		assert.Len(t, log.find(purgatory.EventStuck), 1)
		close(leave)
		assert.NoError(t, <-done)
	})
}

// Shutdown with a context that lives returns while others register, check, cancel and end their
// goroutines. Nothing is pending then, every accepted operation was answered once, and no
// callback runs any more.
func TestShutdownReturnsWhateverRaces(t *testing.T) {
	for seed := range uint64(40) {
		var opts []purgatory.Option
		if seed%3 == 0 {
			opts = append(opts, purgatory.WithFirstInFirstOut())
		}
		if seed%4 == 0 {
			opts = append(opts, purgatory.WithSignalWorkers(1), purgatory.WithExpiryWorkers(1))
		}
		shutdownRound(t, seed, opts)
		if t.Failed() {
			t.Logf("seed %d", seed)
			return
		}
	}
}

func shutdownRound(t *testing.T, seed uint64, opts []purgatory.Option) {
	p := open[int](t, append(opts, purgatory.WithPanicHandler(func(any, []byte) {
		if rand.IntN(2) == 0 {
			runtime.Goexit()
		}
	}))...)
	var returned atomic.Bool
	var late, answers, steps atomic.Int64
	var wg sync.WaitGroup
	unwinds := func(n int) {
		switch n {
		case 0:
			panic("of the user's")
		case 1:
			runtime.Goexit()
		}
	}
	step := func(rnd *rand.Rand) {
		key := rnd.IntN(4)
		switch rnd.IntN(6) {
		case 0, 1, 2:
			fails, met := rnd.IntN(12), rnd.IntN(3)
			o := &op{}
			o.try = func() bool {
				if o.tries.Load() > 1 {
					unwinds(fails - 2)
				}
				return o.tries.Load() > 2 && met == 0
			}
			o.complete = func() {
				if answers.Add(1); returned.Load() {
					late.Add(1)
				}
				p.SignalInOrder(key)
				unwinds(fails)
			}
			_, _ = p.TryCompleteElseWatch(o, time.Duration(rnd.IntN(3))*time.Millisecond, key, rnd.IntN(4))
		case 3:
			p.CheckAndComplete(key, rnd.IntN(4))
		case 4:
			p.CheckAndCompleteInOrder(key)
		case 5:
			p.CancelForKey(key, nil)
		}
	}
	for g := range uint64(5) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, g))
			for after := 0; after < 10; steps.Add(1) { // some steps come after Shutdown has returned
				if returned.Load() {
					after++
				}
				inBackground(func() { step(rnd) })()
			}
		})
	}
	for begin := rand.New(rand.NewPCG(seed, 99)).Int64N(300); steps.Load() < begin; {
		runtime.Gosched()
	}
	within, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	assert.NoError(t, p.Shutdown(within))
	returned.Store(true)
	assert.Zero(t, p.NumDelayed())
	wg.Wait()
	s := conserved(t, p)
	assert.Zero(t, s.Pending)
	assert.Equal(t, s.Accepted, answers.Load(), "answers")
	assert.Zero(t, late.Load(), "callbacks after Shutdown has returned")
	empty(t, p)
}

// While Shutdown waits, no operation is tried or accepted, and it is logged once that Shutdown waits.
func TestShutdownRefusesFromItsBeginningOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := onManualClock[string](t, purgatory.WithLogger(slog.New(log)))
		waits := probed(t, p, time.Hour, "a")
		done := make(chan error)
		go func() { done <- p.Shutdown(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { done <- p.Shutdown(ctx) }()
		synctest.Wait()
		tried := &op{try: func() bool { return true }}
		_, err := p.TryCompleteElseWatch(tried, time.Hour, "a")
		require.ErrorIs(t, err, purgatory.ErrClosed)
		require.ErrorIs(t, p.Await(ctx, time.Hour, tried.TryComplete, "a"), purgatory.ErrClosed)
		assert.Zero(t, tried.tries.Load())
		assert.Len(t, log.find(purgatory.EventShutdown), 1)
		assert.Equal(t, operation.Pending, waits.Outcome())
		require.True(t, p.ForceComplete(waits))
		assert.NoError(t, <-done)
		assert.NoError(t, <-done)
	})
}

// A registration that began before Shutdown, and is not accepted yet, is refused: Shutdown would not
// wait for its condition.
func TestARegistrationDuringWhichShutdownBeginsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := onManualClock[string](t)
		waits := probed(t, p, time.Hour, "a")
		done := make(chan error)
		o := &op{}
		o.try = func() bool {
			if o.tries.Load() == 1 {
				go func() { done <- p.Shutdown(t.Context()) }()
				synctest.Wait()
			}
			return false
		}
		completed, err := p.TryCompleteElseWatch(o, time.Hour, "a")
		assert.False(t, completed)
		require.ErrorIs(t, err, purgatory.ErrClosed)
		assert.Equal(t, 1, p.NumDelayed())
		require.True(t, p.ForceComplete(waits))
		assert.NoError(t, <-done)
		assert.Equal(t, operation.Pending, o.Outcome())
	})
}

// If the context of Shutdown ends while operations wait, Shutdown returns the context's cause,
// even if their callbacks have run by then.
func TestShutdownThatEndsOperationsReturnsTheCause(t *testing.T) {
	var p *purgatory.DelayedOperationPurgatory[string]
	p = onManualClock[string](t, on(purgatory.EventClosed, func() { // logged when all have ended: wait for the workers that run the callbacks
		assert.Eventually(t, p.Idle, deadline, time.Millisecond)
	}))
	probed(t, p, time.Hour, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Shutdown(ctx), context.Canceled)
	require.NoError(t, p.Shutdown(t.Context()))
}
