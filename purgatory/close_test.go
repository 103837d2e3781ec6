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
)

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
	assert.Equal(t, []int{0, 0, 0}, []int{p.NumDelayed(), p.Watched(), p.NumKeys()})
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

func TestCloseMayBeCalledFromAnyCallback(t *testing.T) {
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
		assert.Equal(t, []int{0, 0, 0}, []int{p.NumDelayed(), p.Watched(), p.NumKeys()})
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

func TestHundredsOfSubmissionsDuringCloseEndOnce(t *testing.T) {
	const goroutines = 300
	for _, shards := range []int{1, 64} {
		p := open[int](t, purgatory.WithWatcherShards(shards))
		var accepted, refused, completed, wrong atomic.Int64
		var group sync.WaitGroup
		begin := make(chan struct{})
		for g := range goroutines {
			group.Go(func() {
				<-begin
				for i := 0; ; i++ {
					o := &op{complete: func() { completed.Add(1) }}
					switch _, err := p.TryCompleteElseWatch(o, hour, g, i%7); {
					case err == nil:
						accepted.Add(1)
					case errors.Is(err, purgatory.ErrClosed):
						refused.Add(1)
						if o.Outcome() != operation.Pending || o.completed.Load() != 0 {
							wrong.Add(1)
						}
						return
					default:
						wrong.Add(1)
						return
					}
				}
			})
		}
		close(begin)
		eventually(t, func() bool { return accepted.Load() > goroutines }, "they are at it")
		require.NoError(t, p.Close())
		group.Wait()
		require.NoError(t, p.Shutdown(t.Context()))
		assert.EqualValues(t, goroutines, refused.Load())
		assert.Equal(t, accepted.Load(), completed.Load(), "each that was accepted is answered")
		assert.Zero(t, wrong.Load())
		assert.Equal(t, accepted.Load(), p.Stats().Closed)
		empty(t, p)
	}
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

// Goroutines that go on signalling all keys, as nobody has told them of the end, keep Shutdown
// neither from closing nor from returning.
func TestShutdownReturnsWhileOthersSignalAllKeys(t *testing.T) {
	p := open[int](t)
	stop, callers := make(chan struct{}), sync.WaitGroup{}
	defer callers.Wait()
	defer close(stop)
	var calls atomic.Int64
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					p.SignalAll()
					calls.Add(1)
				}
			}
		})
	}
	eventually(t, func() bool { return calls.Load() > 1000 }, "the callers are at it")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	assert.NoError(t, p.Shutdown(ctx))
}

// A callback that blocks Close holds up nothing else: what Close has not reached is still tried.
func TestSignalAllReachesWhatABlockedCloseHasNotReached(t *testing.T) {
	for name, signal := range map[string]func(p *intPurgatory){
		"Signal": func(p *intPurgatory) {
			for i := range 100 {
				p.Signal(i)
			}
		},
		"SignalAll": func(p *intPurgatory) { p.SignalAll() },
	} {
		t.Run(name, func(t *testing.T) {
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
			signal(p)
			assert.True(t, inTime(func() bool { return p.NumDelayed() == 0 }), "of %d that waited, %d wait", before, p.NumDelayed())
			close(release)
			wait()
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
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
