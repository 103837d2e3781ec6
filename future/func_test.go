package future

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// The function of GatherFunc may use the future: the future has ended, and its lock is
// not held.
func TestTheFunctionMayUseItsEndedFuture(t *testing.T) {
	p := newManual(t)
	called := make(chan struct{})
	var f *Future[int]
	f, err := GatherFunc(p, time.Hour, All(1), func(results []Result[int], _ error) {
		defer close(called)
		used := make(chan struct{})
		go func() {
			defer close(used)
			<-f.Done()
			again, err := f.Wait(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, results, again)
		}()
		select {
		case <-used:
		case <-time.After(15 * time.Second): // not in a bubble, where time stands while somebody waits for a lock
			assert.Fail(t, "the future's lock is held, or its end not told")
		}
	}, "f")
	require.NoError(t, err)
	done := f.Done()
	f.Deliver(0, 1, nil)
	<-called
	<-done
}

// While functions block every worker, a future that has none ends for those who wait for it.
func TestAFutureWithoutAFunctionNeedsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurgatory(t, purgatory.WithCallbacksOnWorkers(), purgatory.WithSignalWorkers(1))
		block := make(chan struct{})
		blocked, err := GatherFunc(p, time.Hour, All(1), func([]Result[int], error) { <-block }, "blocked")
		require.NoError(t, err)
		blocked.Deliver(0, 1, nil)
		synctest.Wait()
		gather := func() *Future[int] {
			f, err := Gather[int](p, time.Hour, All(1), "f")
			require.NoError(t, err)
			return f
		}
		f := gather()
		f.Deliver(0, 1, nil)
		<-f.Done()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = gather().Wait(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = gather().Wait(t.Context())
		assert.ErrorIs(t, err, purgatory.ErrExpired)
		called := false
		f, err = GatherFunc(p, time.Hour, All(1), func([]Result[int], error) { called = true }, "f")
		require.NoError(t, err)
		f.Deliver(0, 1, nil)
		synctest.Wait()
		assert.False(t, called, "a function may block, and waits for a worker")
		close(block)
		<-f.Done()
		synctest.Wait()
		assert.True(t, called)
	})
}
