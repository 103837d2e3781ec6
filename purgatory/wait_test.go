package purgatory_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

func isDone(w *purgatory.Wait[string]) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

func TestAWaitEndsAsAnAwaitDoes(t *testing.T) {
	var met atomic.Bool
	for name, c := range map[string]struct {
		end  func(p *stringPurgatory, w *purgatory.Wait[string])
		want error
	}{
		"check":  {func(p *stringPurgatory, _ *purgatory.Wait[string]) { met.Store(true); p.CheckAndComplete("a") }, nil},
		"expire": {func(p *stringPurgatory, _ *purgatory.Wait[string]) { p.AdvanceClock(2 * hour) }, purgatory.ErrExpired},
		"cancel": {func(p *stringPurgatory, _ *purgatory.Wait[string]) { p.CancelForKey("a", errGone) }, errGone},
		"close":  {func(p *stringPurgatory, _ *purgatory.Wait[string]) { _ = p.Close() }, purgatory.ErrClosed},
		"stop":   {func(_ *stringPurgatory, w *purgatory.Wait[string]) { assert.True(t, w.Stop()) }, purgatory.ErrCancelled},
	} {
		met.Store(false)
		p := onManualClock[string](t)
		w, err := p.StartWait(hour, met.Load, "a", "b")
		require.NoError(t, err)
		assert.False(t, isDone(w))
		require.ErrorIs(t, w.Err(), purgatory.ErrPending, name)
		c.end(p, w)
		require.True(t, isDone(w), name)
		require.ErrorIs(t, w.Err(), c.want, name)
		assert.False(t, w.Stop(), name)
		empty(t, p)
	}
	met.Store(false)
	p := onManualClock[string](t)
	w, err := p.StartWaitAt(hour, met.Load, purgatory.KeyPosition[string]{Key: "a", Position: 7})
	require.NoError(t, err)
	met.Store(true)
	assert.Zero(t, p.CheckAndCompleteUpTo("a", 6))
	assert.Equal(t, 1, p.CheckAndCompleteUpTo("a", 7))
	assert.True(t, isDone(w))
	w, err = p.StartWait(hour, met.Load, "a")
	require.NoError(t, err)
	assert.True(t, isDone(w), "ready at once")
	_, err = p.StartWait(hour, nil, "a")
	require.ErrorIs(t, err, purgatory.ErrNilOperation)
	_, err = p.StartWait(purgatory.NoTimeout, met.Load)
	require.ErrorIs(t, err, purgatory.ErrNoKeys)
}

// A wait that was stopped leaves nothing behind, and costs two allocations and no goroutine.
func TestAStoppedWaitLeavesNothing(t *testing.T) {
	p := onManualClock[string](t)
	never := func() bool { return false }
	goroutines := runtime.NumGoroutine()
	stopped := func() weak.Pointer[purgatory.Wait[string]] {
		w, err := p.StartWait(hour, never, "a")
		require.NoError(t, err)
		// Goroutines of the runtime come and go, and so do those of tests that have ended.
		assert.True(t, inTime(func() bool { return runtime.NumGoroutine() <= goroutines }), "a goroutine more")
		assert.True(t, w.Stop())
		return weak.Make(w)
	}()
	empty(t, p)
	runtime.GC()
	assert.Nil(t, stopped.Value())
	if !purgatory.RaceDetector { // it makes a sync.Pool drop items
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			w, _ := p.StartWait(hour, never, "a")
			w.Stop()
		}), 2.0)
	}
	runtime.KeepAlive(p)
}

// Many goroutines select on waits that end in every way, one of them by Stop.
func TestSelectingOnWaitsLosesNone(t *testing.T) {
	p := open[string](t)
	var met atomic.Int64
	var stop atomic.Bool
	var checks, waits sync.WaitGroup
	checks.Go(func() {
		for !stop.Load() {
			met.Add(1)
			p.CheckAndComplete("a")
		}
	})
	for range 8 {
		waits.Go(func() {
			for i := range 500 {
				after := met.Load()
				w, err := p.StartWait(hour, func() bool { return met.Load() > after }, "a")
				if !assert.NoError(t, err) {
					return
				}
				if i%3 == 0 {
					w.Stop()
				}
				<-w.Done()
				if err := w.Err(); i%3 != 0 {
					assert.NoError(t, err)
				}
			}
		})
	}
	waits.Wait()
	stop.Store(true)
	checks.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, p.Shutdown(ctx))
}

// What ready has taken when the wait starts is the caller's, even if the purgatory has closed
// meanwhile.
func TestAYesOfAWaitThatStartsIsNotDropped(t *testing.T) {
	p := onManualClock[string](t)
	taken := 0
	w, err := p.StartWait(hour, func() bool {
		taken++
		assert.NoError(t, p.Close())
		return true
	}, "a")
	require.NoError(t, err)
	assert.True(t, isDone(w))
	require.NoError(t, w.Err())
	assert.False(t, w.Stop(), "it has ended")
	assert.Equal(t, 1, taken)
	assert.Zero(t, p.NumDelayed())

	_, err = p.StartWait(hour, func() bool { taken++; return true }, "a")
	require.ErrorIs(t, err, purgatory.ErrClosed, "it is not called on a closed purgatory")
	assert.Equal(t, 1, taken)
}

// strangeContext is a context whose Done panics.
type strangeContext struct{ context.Context }

func (strangeContext) Done() <-chan struct{} { panic("of the context's") }

// Whoever leaves while a wait is registered leaves nothing behind, without a timeout that would end it.
func TestAWaitThatNobodyHoldsEnds(t *testing.T) {
	never := func() bool { return false }
	for name, wait := range map[string]func(p *stringPurgatory){
		"Await, a Goexit in ready":     func(p *stringPurgatory) { _ = p.Await(context.Background(), purgatory.NoTimeout, exitsAt(2), "a") },
		"StartWait, a Goexit in ready": func(p *stringPurgatory) { _, _ = p.StartWait(purgatory.NoTimeout, exitsAt(2), "a") },
		"StartWait, at first":          func(p *stringPurgatory) { _, _ = p.StartWait(purgatory.NoTimeout, exitsAt(1), "a") },
		"Await, a context that panics": func(p *stringPurgatory) {
			defer func() { _ = recover() }()
			_ = p.Await(strangeContext{context.Background()}, purgatory.NoTimeout, never, "a")
		},
		"AwaitRead, a context that panics": func(p *stringPurgatory) {
			defer func() { _ = recover() }()
			_, _ = purgatory.AwaitRead(strangeContext{context.Background()}, p, purgatory.NoTimeout, func(context.Context) (int, bool, error) { return 0, false, nil }, "a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			inBackground(func() { wait(p) })()
			eventually(t, func() bool { return p.NumDelayed() == 0 && p.Watched() == 0 }, "it ends")
		})
	}
}

// exitsAt returns a condition that ends its goroutine when it is called for the nth time.
func exitsAt(n int32) func() bool {
	var calls atomic.Int32
	return func() bool {
		if calls.Add(1) == n {
			runtime.Goexit()
		}
		return false
	}
}
