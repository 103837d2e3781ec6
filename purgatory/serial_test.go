package purgatory_test

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/delayedop/purgatory/purgatory"
)

// The recipe of the example: while several goroutines register, one flushes, another cancels and the log closes, each
// wait that was accepted is called back once. The callbacks do not overlap, none runs on a goroutine that
// registers, and those of reached positions come in order.
func TestCallbacksOfALogAreSerial(t *testing.T) {
	const registering = 4
	for round := range howMany(40, 8) {
		l, err := newWAL()
		require.NoError(t, err)
		watched(t)
		var last, next, accepted, answered, cancelled, inside atomic.Int64
		callback := func(position int64) func(error) {
			return func(err error) {
				assert.EqualValues(t, 1, inside.Add(1), "callbacks overlap")
				if err == nil {
					assert.Less(t, last.Swap(position), position, "order")
				} else {
					cancelled.Add(1)
				}
				if position%16 == 0 {
					assert.NotContains(t, string(debug.Stack()), "whenDurableLocked")
				}
				answered.Add(1)
				inside.Add(-1)
			}
		}
		var running errgroup.Group
		for range registering {
			running.Go(func() error {
				for range 500 {
					l.mu.Lock()
					n := next.Add(1) // as an append does
					if l.whenDurableLocked(n, callback(n)) == nil {
						accepted.Add(1)
					}
					l.mu.Unlock()
				}
				return nil
			})
		}
		running.Go(func() error {
			for l.durable.Load() < 300*registering {
				l.flushed(next.Load())
			}
			return nil
		})
		var cancelling errgroup.Group
		var over atomic.Bool
		if round%4 > 1 { // also those that are being registered
			cancelling.Go(func() error {
				for !over.Load() {
					l.waits.CancelForKey(struct{}{}, nil)
				}
				return nil
			})
		}
		if round%2 == 0 {
			require.NoError(t, running.Wait())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_ = l.waits.Shutdown(ctx)
		cancel()
		require.NoError(t, running.Wait())
		over.Store(true)
		require.NoError(t, cancelling.Wait())
		require.Equal(t, accepted.Load(), answered.Load())
		require.NoError(t, l.waits.Shutdown(t.Context()))
		if round%4 == 0 {
			require.Positive(t, answered.Load()-cancelled.Load())
		}
		if t.Failed() {
			return
		}
	}
}

// One that waits for a position that is durable already is called back without another flush.
func TestAWaitForWhatIsDurableIsCalledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := newWAL()
		require.NoError(t, err)
		l.flushed(2)
		answers := make(chan error, 1)
		require.NoError(t, l.whenDurable(2, func(err error) { answers <- err }))
		synctest.Wait()
		require.Len(t, answers, 1)
		require.NoError(t, <-answers)
		require.NoError(t, l.waits.Shutdown(t.Context()))
	})
}

// With one signal worker and WithCallbacksOnWorkers, callbacks run one after the other in the order in which the
// operations ended, whatever check has ended them.
func TestOneWorkerRunsCallbacksInTheOrderOfTheirEnds(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithSignalWorkers(1), purgatory.WithCallbacksOnWorkers())
	var reached, inside atomic.Int64
	var order []int64 // the worker's
	const n = 1000
	reached.Store(-1)
	for i := range int64(n) {
		position := i * 7919 % n
		o := &op{try: func() bool { return position <= reached.Load() }}
		o.complete = func() {
			assert.EqualValues(t, 1, inside.Add(1), "callbacks overlap")
			assert.NotContains(t, string(debug.Stack()), "CheckAndComplete")
			order = append(order, position)
			inside.Add(-1)
		}
		_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[int]{Key: 1, Position: position})
		require.NoError(t, err)
	}
	for end := int64(9); end < n; end += 10 {
		reached.Store(end)
		if end%20 == 9 {
			p.CheckAndCompleteUpTo(1, end)
		} else {
			p.CheckAndComplete(1)
		}
	}
	require.NoError(t, p.Shutdown(t.Context()))
	require.Len(t, order, n)
	assert.IsIncreasing(t, order)
}
