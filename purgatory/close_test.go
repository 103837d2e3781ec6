package purgatory_test

import (
	"context"
	"errors"
	"log/slog"
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
)

// Each walk ends several batches. A drain waits for the last callback, and for nothing else.
func TestADrainIsOverAfterWalksOfSeveralBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t)
		var met atomic.Bool
		leave := make(chan struct{})
		for range 2 {
			for range 300 {
				submit(t, p, until(&met), purgatory.NoTimeout, "a")
			}
			met.Store(true)
			assert.Equal(t, 300, p.CheckAndComplete("a"))
			met.Store(false)
		}
		submit(t, p, &op{try: met.Load, complete: func() { <-leave }}, purgatory.NoTimeout, "a")
		for range 300 {
			submit(t, p, until(&met), purgatory.NoTimeout, "a")
		}
		met.Store(true)
		p.Signal("a")
		var over atomic.Bool
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			assert.NoError(t, p.Shutdown(ctx))
			over.Store(true)
		}()
		time.Sleep(time.Minute)
		assert.False(t, over.Load(), "a callback has not returned")
		close(leave)
		time.Sleep(time.Minute)
		assert.True(t, over.Load())
	})
}

// A Shutdown whose context has ended returns when the callbacks of what it has ended have run. One that blocks
// holds it up for a second only, and the error counts it.
func TestADrainAnswersEverybody(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		text  string
	}{
		"all answer":          {900 * time.Millisecond, ""},
		"one does not answer": {3 * time.Second, "1 operations are unanswered"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open[string](t)
				o := &op{complete: func() { time.Sleep(c.takes) }}
				submit(t, p, o, hour, "a")
				ctx, end := context.WithCancelCause(t.Context())
				cause := errors.New("the process ends")
				end(cause)
				began := time.Now()
				err := p.Shutdown(ctx)
				require.ErrorIs(t, err, cause)
				assert.LessOrEqual(t, time.Since(began), 1100*time.Millisecond, "the bubble's time")
				if c.text == "" {
					assert.GreaterOrEqual(t, time.Since(began), c.takes)
					assert.Equal(t, cause, err)
				} else {
					assert.ErrorContains(t, err, c.text)
				}
				require.NoError(t, p.Shutdown(t.Context()))
				ended(t, o, operation.Closed)
			})
		})
	}
}

func TestCloseRunsCallbacksOnTheCallersGoroutine(t *testing.T) {
	p, err := purgatory.New[int]("test")
	require.NoError(t, err)
	var all []*op
	n := 0 // without a lock: the race detector sees a second goroutine
	for i := range 1000 {
		o := &op{complete: func() { n++ }}
		submit(t, p, o, hour, i, i+1, i%7)
		all = append(all, o)
	}
	require.NoError(t, p.Close())
	assert.Equal(t, 1000, n)
	for _, o := range all {
		ended(t, o, operation.Closed)
	}
	require.NoError(t, p.Close(), "again")
	assert.Equal(t, []int{0, 0, 0}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)})
	s := conserved(t, p)
	assert.EqualValues(t, 1000, s.Closed)
	// The methods can still be called.
	assert.Zero(t, p.CheckAndComplete(1))
	assert.False(t, p.ForceComplete(all[0]))
	p.Signal(1)
	require.ErrorIs(t, p.Await(t.Context(), hour, func() bool { return true }, 1), purgatory.ErrClosed)
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestCloseDoesNotWaitForCallbacksElsewhere(t *testing.T) {
	p := onManualClock[string](t)
	g := newGate()
	o := &op{complete: g.pass}
	submit(t, p, o, hour, "a")
	wait := inBackground(func() { p.ForceComplete(o) })
	<-g.entered
	other := submitted(t, p, "a")
	require.NoError(t, p.Close())
	ended(t, other, operation.Closed)

	// Shutdown waits for them.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	require.ErrorIs(t, p.Shutdown(ctx), errGone)
	close(g.leave)
	wait()
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestGoexitInACallbackOfCloseLeavesNothingPending(t *testing.T) {
	p, err := purgatory.New[int]("test")
	require.NoError(t, err)
	var all []*op
	for i := range 500 { // over all shards
		o := &op{complete: runtime.Goexit}
		submit(t, p, o, hour, i)
		all = append(all, o)
	}
	inBackground(func() { _ = p.Close() })()
	require.NoError(t, p.Shutdown(t.Context()))
	for _, o := range all {
		ended(t, o, operation.Closed)
	}
}

func TestASubmissionDuringCloseEndsOnceOrIsRefused(t *testing.T) {
	const goroutines, rounds = 300, 15
	for round := range rounds {
		p, err := purgatory.New[int]("test", purgatory.WithWatcherShards(1<<(round%4)))
		require.NoError(t, err)
		var met atomic.Bool
		var accepted, refused, completed atomic.Int64
		var start, done sync.WaitGroup
		start.Add(1)
		for g := range goroutines {
			done.Go(func() {
				start.Wait()
				for i := range 4 {
					o := until(&met)
					o.complete = func() { completed.Add(1) }
					timeout := []time.Duration{hour, time.Millisecond, 0, hour}[i]
					_, err := p.TryCompleteElseWatch(o, timeout, g%5, g%7+5, g)
					switch {
					case err == nil:
						accepted.Add(1)
					case errors.Is(err, purgatory.ErrClosed):
						refused.Add(1)
					default:
						assert.NoError(t, err)
					}
				}
			})
		}
		done.Go(func() {
			start.Wait()
			switch round % 3 {
			case 0:
				assert.NoError(t, p.Close())
			case 1:
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				_ = p.Shutdown(ctx)
			default:
				met.Store(true)
				p.CheckAndComplete(3)
				assert.NoError(t, p.Close())
			}
		})
		start.Done()
		done.Wait()
		require.NoError(t, p.Close())
		require.NoError(t, p.Shutdown(aWhile(t)))
		assert.Equal(t, accepted.Load(), completed.Load(), "every accepted operation is answered")
		assert.EqualValues(t, 4*goroutines, accepted.Load()+refused.Load())
		assert.Equal(t, accepted.Load(), conserved(t, p).Accepted)
		assert.Equal(t, []int{0, 0, 0}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)})
	}
}

func TestCloseRefusesSubmissionsFromItsFirstCallbackOn(t *testing.T) {
	p := open[int](t, purgatory.WithWatcherShards(64))
	const n = 200 // some in every shard
	refused := 0
	for i := range n {
		submit(t, p, &op{complete: func() {
			for key := range n {
				if _, err := p.TryCompleteElseWatch(&op{}, hour, key); errors.Is(err, purgatory.ErrClosed) {
					refused++
				}
			}
		}}, hour, i)
	}
	require.NoError(t, p.Close())
	assert.Equal(t, n*n, refused)
	assert.EqualValues(t, n, p.Stats().Accepted)
}

func TestCloseEndsAnOperationThatExpiresDuringRegistration(t *testing.T) {
	p := onManualClock[string](t)
	o := &op{}
	o.try = func() bool {
		switch o.tries.Load() {
		case 2:
			p.CheckAndComplete("a") // a mark: the registration tries again, after the timeout was scheduled
		case 3:
			p.AdvanceClock(time.Second) // a wish: the timeout has passed
			assert.NoError(t, p.Close())
		}
		return false
	}
	_, err := p.TryCompleteElseWatch(o, time.Second, "a")
	require.NoError(t, err)
	eventually(t, func() bool { return o.completed.Load() == 1 }, "nobody moves this clock any more")
	assert.NotEqual(t, operation.Pending, o.Outcome())
	empty(t, p)
}

// A callback that blocks Close holds up nothing else: what Close has not reached is still tried.
func TestASignalReachesWhatABlockedCloseHasNotReached(t *testing.T) {
	p := open[int](t, purgatory.WithWatcherShards(64))
	release := make(chan struct{})
	var blocked atomic.Int32
	var met atomic.Bool
	all := make([]*op, 100)
	for i := range all {
		all[i] = until(&met)
		all[i].complete = func() {
			if all[i].Outcome() == operation.Closed {
				blocked.Add(1)
				<-release
			}
		}
		submit(t, p, all[i], hour, i)
	}
	wait := inBackground(func() { assert.NoError(t, p.Close()) })
	eventually(t, func() bool { return blocked.Load() > 0 }, "Close is held up")
	before := p.NumDelayed()
	met.Store(true)
	for i := range all {
		p.Signal(i)
	}
	assert.True(t, inTime(func() bool { return p.NumDelayed() == 0 }), "of %d that waited, %d wait", before, p.NumDelayed())
	close(release)
	wait()
	require.NoError(t, p.Shutdown(t.Context()))
}

// Without a reaper a goroutine of the user's advances the clock. It does not wait for the time of a
// purgatory that is closed.
func TestCloseWakesWhoAdvancesTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("p", purgatory.WithoutReaper())
		require.NoError(t, err)
		began := time.Now()
		wait := inBackground(func() { p.AdvanceClock(hour) })
		synctest.Wait() // it sleeps
		require.NoError(t, p.Close())
		wait()
		assert.Zero(t, time.Since(began), "on the clock of the bubble")
	})
}

// The record of Close counts waits that were met at once, as Stats does.
func TestTheRecordOfCloseCountsWaitsThatWereMetAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := onManualClock[string](t, purgatory.WithLogger(slog.New(log)))
		require.NoError(t, p.Await(t.Context(), time.Hour, func() bool { return true }, "a"))
		submit(t, p, &op{complete: func() { time.Sleep(3 * time.Second) }}, hour, "b")
		require.NoError(t, p.Close())
		synctest.Wait() // the logger runs on its own goroutine
		got := log.find(purgatory.EventClosed)
		require.Len(t, got, 1)
		assert.Equal(t, []any{int64(1), int64(1), 3 * time.Second}, []any{got[0]["satisfied"], got[0]["closed"], got[0]["elapsed"]})
		assert.EqualValues(t, 1, p.Stats().Satisfied)
	})
}

// A broker with 5,000 pending produces is told to stop while others come and go, and its time passes. When
// Shutdown has returned the process may end: each request that was accepted has its answer.
func TestADrainThatRunsOutOfTimeAnswersEverybody(t *testing.T) {
	const pending, partitions, handlers = 5_000, 500, 4
	for range howMany(12, 6) {
		p := open[int](t)
		var accepted, answered atomic.Int64
		produce := func(key int, met *atomic.Bool) error {
			o := until(met)
			o.complete = func() { answered.Add(1) }
			_, err := p.TryCompleteElseWatch(o, hour, key)
			if err == nil {
				accepted.Add(1)
			}
			return err
		}
		var never atomic.Bool
		for i := range pending {
			require.NoError(t, produce(i%partitions, &never))
		}
		var handling sync.WaitGroup
		for h := range handlers {
			handling.Go(func() {
				for i := h; ; i++ {
					var met atomic.Bool
					if err := produce(i%partitions, &met); err != nil {
						assert.ErrorIs(t, err, purgatory.ErrClosed)
						return
					}
					met.Store(true)
					p.CheckAndComplete(i % partitions)
				}
			})
		}
		eventually(t, func() bool { return accepted.Load() > pending+100 }, "it is busy")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errGone)
		err := p.Shutdown(ctx)
		answers := answered.Load()
		cancel()
		handling.Wait()
		require.ErrorIs(t, err, errGone)
		require.EqualError(t, err, errGone.Error(), "nobody is unanswered")
		require.Equal(t, accepted.Load(), answers, "answers when Shutdown had returned")
		require.Positive(t, p.Stats().Closed)
	}
}

// Close has run the callbacks of what it has ended when it returns.
func TestCloseHasAnsweredWhatItEnded(t *testing.T) {
	for range howMany(20, 4) {
		p := open[int](t)
		all := make([]*op, 5_000)
		for i := range all {
			all[i] = submitted(t, p, i%100)
		}
		require.NoError(t, p.Close())
		for _, o := range all {
			require.EqualValues(t, 1, o.completed.Load())
		}
	}
}

// released returns a channel, and a function that closes it: once, also for a test that has failed before.
func released() (release chan struct{}, free func()) {
	release = make(chan struct{})
	return release, sync.OnceFunc(func() { close(release) })
}

// Callbacks that block hold Shutdown up for a second, and its error says how many operations are
// unanswered. Those of the other operations run, also if more block than there are workers; but not if more block
// than a drain has at most, nor if there is one worker, which runs one callback after the other.
func TestCallbacksThatBlockADrainAreCounted(t *testing.T) {
	const all = 1500
	for _, test := range []struct {
		options []purgatory.Option
		blocked int
		says    string
		answers int32
	}{
		{nil, 7, `7 operations are unanswered`, all - 7},
		{[]purgatory.Option{purgatory.WithWorkers(7)}, 7, `7 operations are unanswered`, all - 7},
		{[]purgatory.Option{purgatory.WithWorkers(2)}, 1000, `1000 operations are unanswered`, all - 1000},
		{[]purgatory.Option{purgatory.WithWorkers(2)}, 1024, `1500 operations are unanswered`, 0},
		{[]purgatory.Option{purgatory.WithWorkers(1)}, 1, `1500 operations are unanswered`, 0},
		{[]purgatory.Option{purgatory.WithWorkers(1100)}, 1024, `1024 operations are unanswered`, all - 1024},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, err := purgatory.New[string]("produce", test.options...)
			require.NoError(t, err)
			var answers atomic.Int32
			release, free := released()
			defer free()
			ops := make([]*op, all)
			for i := range ops {
				ops[i] = &op{complete: func() {
					if i < test.blocked {
						<-release
					}
					answers.Add(1)
				}}
				submit(t, p, ops[i], hour, "orders-0")
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errGone)
			defer cancel()
			began := time.Now()
			err = p.Shutdown(ctx)
			took := time.Since(began) - 10*time.Second
			require.ErrorIs(t, err, errGone)
			require.ErrorContains(t, err, test.says)
			assert.Equal(t, test.answers, answers.Load())
			assert.GreaterOrEqual(t, took, time.Second)
			assert.Less(t, took, 1100*time.Millisecond, "of the bubble's time")
			assert.Zero(t, p.NumDelayed())

			free()
			require.NoError(t, p.Shutdown(t.Context()), "it waits for them")
			for _, o := range ops {
				ended(t, o, operation.Closed)
			}
		})
	}
}

// While most workers are blocked, a drain does not leave all others to the few that are not.
func TestADrainIsNotLeftToAFewWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("produce", purgatory.WithWorkers(32))
		require.NoError(t, err)
		release, free := released()
		defer free()
		for range 31 {
			submit(t, p, &op{complete: func() { <-release }}, hour, "produce")
		}
		var answers atomic.Int32
		for range 15_000 { // one worker would take 1.5 s
			submit(t, p, &op{complete: func() { time.Sleep(100 * time.Microsecond); answers.Add(1) }}, hour, "produce")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorContains(t, p.Shutdown(ctx), `31 operations are unanswered`)
		assert.EqualValues(t, 15_000, answers.Load())
		free()
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// While Shutdown waits for its context no more workers run than WithWorkers allows.
func TestADrainThatHasTimeWidensNoPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[int](t, purgatory.WithWorkers(2))
		var met atomic.Bool
		var running, most atomic.Int32
		for key := range 20 {
			submit(t, p, &op{try: met.Load, complete: func() {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Second)
				running.Add(-1)
			}}, hour, key)
		}
		met.Store(true)
		for key := range 20 {
			p.Signal(key)
		}
		require.NoError(t, p.Shutdown(t.Context()))
		assert.EqualValues(t, 2, most.Load())
	})
}

// Those that one call has ended and answered are not unanswered while the callback of the last one blocks.
func TestTheAnsweredBesideABlockedCallbackAreNotUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t)
		release, free := released()
		defer free()
		for i := range 100 {
			submit(t, p, &op{complete: func() {
				if i == 99 {
					<-release
				}
			}}, hour, "a")
		}
		go p.CancelForKey("a", nil)
		synctest.Wait()
		require.ErrorContains(t, p.Shutdown(over(t)), " 1 operations are unanswered")
		free()
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// A wait of Await ends with its purgatory's Shutdown, whatever blocks the callbacks of others.
func TestADrainEndsWaitsBesideBlockedCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("produce", purgatory.WithWorkers(1))
		require.NoError(t, err)
		release, free := released()
		defer free()
		submit(t, p, &op{complete: func() { <-release }}, hour, "orders-0")
		const waits = 50
		ended := make(chan error, waits)
		for range waits {
			go func() {
				ended <- p.Await(context.WithoutCancel(t.Context()), hour, func() bool { return false }, "orders-0")
			}()
		}
		synctest.Wait()
		err = p.Shutdown(over(t))
		require.ErrorContains(t, err, "1 operations are unanswered")
		synctest.Wait()
		require.Len(t, ended, waits)
		for range waits {
			require.ErrorIs(t, <-ended, purgatory.ErrClosed)
		}
		free()
		require.NoError(t, p.Shutdown(t.Context()))
	})
}
