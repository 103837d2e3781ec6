package purgatory_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
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

// Work that an executor refuses after Close is offered again, although no reaper runs.
func TestCallbacksRefusedAfterCloseAreOfferedAgain(t *testing.T) {
	var refuse atomic.Bool
	refuse.Store(true)
	p := open[int](t, purgatory.WithExecutor(func(run func()) error {
		if refuse.Load() {
			return errGone
		}
		go run()
		return nil
	}))
	o := submitted(t, p, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Shutdown(ctx))
	assert.Equal(t, operation.Closed, o.Outcome())
	refuse.Store(false)
	eventually(t, func() bool { return o.completed.Load() == 1 }, "it is answered")
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestRefusedWorkIsOfferedAgainThoughNothingExpires(t *testing.T) {
	refuse := errors.New("busy")
	for name, run := range map[string]func(t *testing.T, submit func(func()) error) (p *stringPurgatory, turn func()){
		"AdvanceClock": func(t *testing.T, submit func(func()) error) (*stringPurgatory, func()) {
			p := onManualClock[string](t, purgatory.WithExecutor(submit))
			return p, func() { p.AdvanceClock(time.Millisecond) }
		},
		"reaper": func(t *testing.T, submit func(func()) error) (*stringPurgatory, func()) {
			clock, err := timer.NewSystemTimer()
			require.NoError(t, err)
			t.Cleanup(func() { clock.Stop() })
			return open[string](t, purgatory.WithTimer(clock), purgatory.WithExecutor(submit), purgatory.WithReapInterval(hour)), func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var refused atomic.Bool
			p, turn := run(t, func(run func()) error {
				if !refused.Swap(true) {
					return refuse
				}
				go run()
				return nil
			})
			var met, over atomic.Bool
			o := until(&met)
			submit(t, p, o, hour, "a")
			met.Store(true)
			p.Signal("a")
			require.True(t, refused.Load())
			var expireAgain func()
			expireAgain = func() { // an operation expires in each turn of the reaper
				if !over.Load() {
					_, _ = p.TryCompleteElseWatch(&op{expire: expireAgain}, time.Millisecond, "b")
				}
			}
			expireAgain()
			eventually(t, func() bool { turn(); return o.completed.Load() == 1 }, "the signal's check")
			over.Store(true)
		})
	}
}

func TestAFullExecutorLosesNoWork(t *testing.T) {
	full := errors.New("full")
	var places atomic.Int32
	var wg sync.WaitGroup
	p := open[int](t, purgatory.WithReapInterval(5*time.Millisecond), purgatory.WithExpiryWorkers(8),
		purgatory.WithExecutor(func(run func()) error {
			if places.Add(-1) < 0 {
				return full
			}
			wg.Go(run)
			return nil
		}))
	const ops = 500
	all := make([]*op, ops)
	var met atomic.Bool
	for i := range all {
		all[i] = until(&met)
		timeout := hour
		if i%2 == 0 {
			timeout = time.Millisecond
		}
		submit(t, p, all[i], timeout, i)
	}
	met.Store(true)
	for i := range all {
		p.Signal(i)
	}
	for range 3 { // refused work is offered again at each reap
		places.Store(1)
		runtime.Gosched()
	}
	eventually(t, func() bool { places.Store(2); return p.NumDelayed() == 0 }, "all of them end")
	require.NoError(t, p.Shutdown(t.Context()))
	wg.Wait()
	for _, o := range all {
		assert.EqualValues(t, 1, o.completed.Load())
	}
	empty(t, p)
}

func TestTheExecutorRunsTheWorkersWithinTheirLimit(t *testing.T) {
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

func TestRefusedWorkIsOfferedAgain(t *testing.T) {
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

// After Close, refused work is offered again by a timer of the runtime: one timer, however
// often the executor refuses.
func TestRefusedWorkIsOfferedByOneRetryAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accept atomic.Bool
		var offers atomic.Int64
		clock, err := timer.NewManualTimer()
		require.NoError(t, err)
		p, err := purgatory.New[string]("test", purgatory.WithTimer(clock), purgatory.WithExecutor(func(run func()) error {
			if !accept.Load() {
				offers.Add(1)
				return errors.New("full")
			}
			go run()
			return nil
		}))
		require.NoError(t, err)
		for i := range 2000 {
			submitted(t, p, strconv.Itoa(i))
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, p.Shutdown(ended)) // hands the callbacks to workers, batch by batch
		offers.Store(0)
		time.Sleep(50 * 10 * time.Millisecond)
		assert.LessOrEqual(t, offers.Load(), int64(51), "one in 10 ms")
		assert.Positive(t, offers.Load())
		accept.Store(true)
		assert.NoError(t, p.Shutdown(t.Context()))
	})
}
