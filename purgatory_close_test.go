package purgatory_test

import (
	"context"
	"errors"
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

func TestCloseEndsWhatIsPendingOnTheCallersGoroutine(t *testing.T) {
	p, err := purgatory.New[int]("test")
	require.NoError(t, err)
	var all []*op
	n := 0 // unguarded: the race detector knows who writes it
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
	assert.Equal(t, []int{0, 0, 0}, []int{p.NumDelayed(), p.Watched(), p.Keys()})
	s := conserved(t, p)
	assert.EqualValues(t, 1000, s.Closed)
	// The verbs still answer.
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

	// Shutdown does.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	require.ErrorIs(t, p.Shutdown(ctx), errGone)
	close(g.leave)
	wait()
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestCloseFromAnyCallbackOfAnOpenPurgatory(t *testing.T) {
	for _, where := range []string{"OnComplete", "OnExpiration", "signalled check"} {
		p, err := purgatory.New[string]("test")
		require.NoError(t, err)
		closes := func() { assert.NoError(t, p.Close()) }
		o := &op{}
		switch where {
		case "OnComplete":
			o.complete = closes
		case "OnExpiration":
			o.expire = closes
		default:
			o.try = func() bool {
				if o.tries.Load() > 2 {
					closes()
				}
				return false
			}
		}
		bystander := submitted(t, p, "b")
		timeout := time.Millisecond
		if where == "signalled check" {
			timeout = hour
		}
		submit(t, p, o, timeout, "a")
		p.Signal("a")
		eventually(t, func() bool { return bystander.completed.Load() == 1 }, where)
		ended(t, bystander, operation.Closed)
		require.NoError(t, p.Shutdown(t.Context()))
		assert.EqualValues(t, 1, o.completed.Load())
	}
}

func TestShutdownGivesWhatIsPendingItsTime(t *testing.T) {
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
			p.Signal("a") // signals are drained, too
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

func TestShutdownDoesNotWaitForAClockLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, err := timer.NewSystemTimer()
		require.NoError(t, err)
		p, err := purgatory.New[string]("test", purgatory.WithTimer(clock), purgatory.WithReapInterval(hour))
		require.NoError(t, err)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded)
		assert.Less(t, time.Since(start), time.Minute)
		require.NoError(t, p.Shutdown(t.Context()), "when the reaper's clock has let it go")
		clock.Stop()
	})
}

func TestAfterShutdownNoCallbackRuns(t *testing.T) {
	// A registration that is in its first try when the purgatory shuts down.
	p := onManualClock[string](t)
	o := newHeldOp()
	proceed := o.holdInRegistration(p, 1, hour, "a")
	require.NoError(t, p.Shutdown(t.Context()))
	_, err := proceed(true)
	require.ErrorIs(t, err, purgatory.ErrClosed)
	pending(t, &o.op)
	assert.Zero(t, conserved(t, p).Accepted)
}

func TestGoexitInACallbackOfCloseLeavesNobodyBehind(t *testing.T) {
	p, err := purgatory.New[int]("test")
	require.NoError(t, err)
	var all []*op
	for i := range 500 { // over all shards
		o := &op{complete: runtime.Goexit}
		submit(t, p, o, hour, i)
		all = append(all, o)
	}
	inBackground(func() { _ = p.Close() })()
	for _, o := range all {
		ended(t, o, operation.Closed)
	}
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestRegisteringWhileClosingIsAnsweredOnceOrRefused(t *testing.T) {
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
		require.NoError(t, p.Shutdown(expired(t)))
		assert.Equal(t, accepted.Load(), completed.Load(), "every accepted operation is answered")
		assert.EqualValues(t, 4*goroutines, accepted.Load()+refused.Load())
		assert.Equal(t, accepted.Load(), conserved(t, p).Accepted)
		assert.Equal(t, []int{0, 0, 0}, []int{p.NumDelayed(), p.Watched(), p.Keys()})
	}
}

// What an executor has refused is offered again at the next reap. There may be no more.
func TestShutdownOffersAgainWhatTheExecutorRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals := 3
		p := onManualClock[string](t, purgatory.WithExecutor(func(run func()) error {
			if refusals--; refusals >= 0 {
				return errGone
			}
			go run()
			return nil
		}))
		var met atomic.Bool
		o := until(&met)
		submit(t, p, o, hour, "a")
		met.Store(true)
		p.Signal("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, p.Shutdown(ctx))
		ended(t, o, operation.Satisfied)
	})
}
