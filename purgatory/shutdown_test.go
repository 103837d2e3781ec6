package purgatory_test

import (
	"context"
	"fmt"
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

// A drain answers everybody but those whose callbacks block, with and without a Close that one of these blocks. It waits a second for
// those; its error says how many they are, and names one.
func TestShutdownWithAnEndedContextAnswersAllButThoseThatBlock(t *testing.T) {
	for _, closing := range []bool{false, true} {
		for _, blocking := range []int{0, 1, 50} {
			synctest.Test(t, func(t *testing.T) {
				p := open[int](t, purgatory.WithWatcherShards(4), purgatory.WithWorkers(2))
				release := make(chan struct{})
				var all []*op
				for i := range 300 {
					o := &op{}
					if i < blocking {
						o.complete = func() { <-release }
					}
					all = append(all, o)
					submit(t, p, o, hour, i)
				}
				wait := func() {}
				if closing {
					wait = inBackground(func() { _ = p.Close() })
					synctest.Wait()
				}
				begun := time.Now()
				err := p.Shutdown(over(t))
				took := time.Since(begun)
				assert.Zero(t, p.NumDelayed())
				if blocking == 0 {
					assert.ErrorIs(t, err, map[bool]error{false: context.Canceled}[closing])
					assert.Less(t, took, time.Second)
				} else {
					require.ErrorIs(t, err, context.Canceled)
					assert.ErrorContains(t, err, fmt.Sprintf(`purgatory "test": context canceled: %d operations are unanswered: a method of a *purgatory_test.op under key `, blocking))
					assert.Regexp(t, ` under key [0-9]+ has been running for [0-9.]+m?s$`, err.Error())
					assert.InDelta(t, time.Second, took, float64(100*time.Millisecond))
				}
				for i, o := range all {
					assert.Equal(t, operation.Closed, o.Outcome())
					if i >= blocking {
						ended(t, o, operation.Closed)
					}
				}
				close(release)
				wait()
				require.NoError(t, p.Shutdown(t.Context()), "it waits for the callbacks")
				for _, o := range all {
					ended(t, o, operation.Closed)
				}
			})
		}
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
	for name, run := range map[string]func(t *testing.T, pause func()) (p *purgatory.Purgatory[string]){
		"a worker of its timer": func(t *testing.T, pause func()) *purgatory.Purgatory[string] {
			p, err := purgatory.New[string]("test")
			require.NoError(t, err)
			_, err = p.OwnTimer().AfterFunc(time.Second, pause)
			require.NoError(t, err)
			p.StartReaper()
			time.Sleep(2 * time.Second)
			return p
		},
		"a worker that has not begun": func(t *testing.T, pause func()) *purgatory.Purgatory[string] {
			p := onManualClock[string](t)
			held := purgatory.HoldWorkers(t, p)
			go func() { pause(); held.Release() }()
			o := probed(t, p, time.Hour, "a")
			p.Signal("a")
			require.True(t, p.ForceComplete(o))
			return p
		},
		"a callback": func(t *testing.T, pause func()) *purgatory.Purgatory[string] {
			p := onManualClock[string](t)
			o := &op{complete: pause}
			_, err := p.TryCompleteElseWatch(o, time.Hour, "a")
			require.NoError(t, err)
			go p.ForceComplete(o)
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

// Shutdown with a context that lives returns while others register, check, cancel and end their
// goroutines. Nothing is pending then, every accepted operation was answered once, and no
// callback runs any more.
func TestShutdownReturnsWhateverRaces(t *testing.T) {
	for seed := range uint64(40) {
		var opts []purgatory.Option
		if seed%4 == 0 {
			opts = append(opts, purgatory.WithWorkers(1))
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
				p.Signal(key)
				unwinds(fails)
			}
			_, _ = p.TryCompleteElseWatch(o, time.Duration(rnd.IntN(3))*time.Millisecond, key, rnd.IntN(4))
		case 3:
			p.CheckAndComplete(key, rnd.IntN(4))
		case 4:
			p.CheckAndCompleteUpTo(key, 0)
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

// While Shutdown waits, no operation is tried or accepted.
func TestShutdownRefusesFromItsBeginningOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := onManualClock[string](t)
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
