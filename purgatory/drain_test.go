package purgatory_test

import (
	"context"
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

// A broker with 20,000 pending produces is told to stop while others come and go, and its time passes. When
// Shutdown has returned the process may end: each request that was accepted has its answer.
func TestADrainThatRunsOutOfTimeAnswersEverybody(t *testing.T) {
	const pending, partitions, handlers = 20_000, 500, 4
	for range howMany(60, 6) {
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

// Callbacks that block hold Shutdown up for the drain time, and its error says how many operations are
// unanswered. Those of the other operations run.
func TestCallbacksThatBlockADrainAreCounted(t *testing.T) {
	const all, blocked = 300, 7
	for _, test := range []struct {
		options []purgatory.Option
		drain   time.Duration
		says    string
		answers int32
	}{
		{nil, time.Second, `7 operations are unanswered`, all - blocked},
		{[]purgatory.Option{purgatory.WithDrainTime(time.Minute)}, time.Minute, `7 operations are unanswered`, all - blocked},
		{[]purgatory.Option{purgatory.WithSignalWorkers(blocked)}, time.Second, `300 operations are unanswered`, 0},
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
					if i < blocked {
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
			assert.GreaterOrEqual(t, took, test.drain)
			assert.Less(t, took, test.drain+100*time.Millisecond, "of the bubble's time")
			assert.Zero(t, p.NumDelayed())

			free()
			require.NoError(t, p.Shutdown(t.Context()), "it waits for them")
			for _, o := range ops {
				ended(t, o, operation.Closed)
			}
		})
	}
}

// With a drain time of zero Shutdown returns when its context ends, whoever is unanswered.
func TestADrainTimeOfZeroIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("produce", purgatory.WithDrainTime(0))
		require.NoError(t, err)
		release, free := released()
		defer free()
		submit(t, p, &op{complete: func() { <-release }}, hour, "orders-0")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGone)
		defer cancel()
		began := time.Now()
		err = p.Shutdown(ctx)
		require.ErrorIs(t, err, errGone)
		require.ErrorContains(t, err, "1 operations are unanswered")
		assert.Equal(t, time.Second, time.Since(began))
		free()
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// A wait of Await ends with its purgatory's Shutdown, whatever blocks the callbacks of others.
func TestADrainEndsWaitsBesideBlockedCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("produce", purgatory.WithSignalWorkers(1))
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
