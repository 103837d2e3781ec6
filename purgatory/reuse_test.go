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

// Await uses the memory of earlier waits. A timer, a walk or a cancellation that comes late
// touches nothing of the next user.

// Each goroutine waits under a key of its own, and ends the wait in a way of its own. None sees
// the end of another's wait: neither its cause, nor its value, nor its timeout.
func TestAReusedWaitIsNobodyElses(t *testing.T) {
	const goroutines = 16
	rounds := howMany(1000, 350)
	p := open[int](t, purgatory.WithWatcherShards(2))
	causes := make([]error, goroutines)
	for i := range causes {
		causes[i] = errors.New("cause of one goroutine")
	}
	var stop atomic.Bool
	var hammering, waiting sync.WaitGroup
	for i := range goroutines { // walks that are late
		hammering.Go(func() {
			for !stop.Load() {
				switch i % 4 {
				case 0:
					p.CancelForKey(i, causes[i])
				case 1:
					p.CheckAndComplete(i, (i+1)%goroutines)
				case 2:
					p.CompleteForKey(i)
				case 3:
					p.Inspect(1, 5)
					p.CheckAndCompleteInOrder(i)
				}
				runtime.Gosched() // or those that wait get the processors every 10 ms only
			}
		})
	}
	for i := range goroutines {
		waiting.Go(func() {
			for r := range rounds {
				timeout, began := hour, time.Now()
				if i%4 == 3 {
					timeout = time.Duration(r%3+1) * time.Millisecond
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				var tries atomic.Int64
				err := p.Await(ctx, timeout, func() bool { return tries.Add(1) > int64(3+r%5) && i%4 == 1 }, i)
				cancel(nil)
				switch i % 4 {
				case 0:
					assert.ErrorIs(t, err, causes[i])
				case 1:
					assert.NoError(t, err)
				case 2:
					assert.ErrorIs(t, err, purgatory.ErrCancelled)
				case 3:
					assert.ErrorIs(t, err, purgatory.ErrExpired)
					assert.GreaterOrEqual(t, time.Since(began), timeout, "never early")
				}
			}
		})
	}
	waiting.Wait()
	stop.Store(true)
	hammering.Wait()
	assert.Zero(t, p.NumDelayed())
	require.NoError(t, p.Shutdown(t.Context()))
}

// A cancellation has read which waits of its key it is to end, and a callback keeps it. These waits
// end in another way, and their goroutines wait under another key, where it ends nothing.
func TestACancellationThatIsLateEndsNoNextWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waits, batch = 8, 128 // each may use memory again; the race detector makes a sync.Pool drop items
		p := open[string](t)
		entered, leave := make(chan struct{}), make(chan struct{})
		for i := range batch {
			o := &op{}
			if i == 0 {
				o.complete = func() { close(entered); <-leave }
			}
			completed, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "a", Position: 1})
			require.NoError(t, err)
			require.False(t, completed)
		}
		var first, second atomic.Bool
		ended := make(chan error, waits)
		for range waits {
			go func() {
				err := p.AwaitAt(t.Context(), hour, first.Load, purgatory.KeyPosition[string]{Key: "a", Position: 2})
				ended <- errors.Join(err, p.Await(t.Context(), hour, second.Load, "b"))
			}()
		}
		synctest.Wait() // they wait, behind a whole batch

		go p.CancelForKey("a", errGone)
		<-entered
		first.Store(true)
		require.Equal(t, waits, p.CheckAndComplete("a"))
		synctest.Wait() // they wait once more
		require.Equal(t, waits, p.NumDelayed())
		close(leave)
		synctest.Wait() // the cancellation is over
		assert.Equal(t, waits, p.NumDelayed())

		second.Store(true)
		p.CheckAndComplete("b")
		for range waits {
			assert.NoError(t, <-ended)
		}
	})
}

// The user may keep an operation that CancelMatching has shown. It never becomes another wait.
func TestAWaitThatTheUserHasSeenIsNotUsedAgain(t *testing.T) {
	p := open[string](t)
	var kept operation.Operation
	done := make(chan error)
	wait := func() { done <- p.Await(t.Context(), hour, func() bool { return false }, "a") }
	go wait()
	eventually(t, func() bool {
		p.CancelMatching("a", errGone, func(o operation.Operation) bool { kept = o; return true })
		return kept != nil
	}, "it waits")
	require.ErrorIs(t, <-done, errGone)
	for range 100 {
		go wait()
		eventually(t, func() bool { return p.NumDelayed() == 1 }, "the next waits")
		assert.False(t, p.ForceComplete(kept))
		p.CancelForKey("a", errGone)
		require.ErrorIs(t, <-done, errGone)
	}
}

// A method that ends what waits for a key runs a callback that blocks, and has not come to the waits
// behind it. These end otherwise meanwhile. It ends none of those that begin then, for another key.
func TestAWalkEndsNoWaitThatBeginsLater(t *testing.T) {
	const many = 200 // more than a walk ends at once
	p := open[string](t)
	g := newGate()
	_, err := p.TryCompleteElseWatchAt(&op{complete: g.pass}, hour, purgatory.KeyPosition[string]{Key: "a", Position: 1})
	require.NoError(t, err)
	for range many {
		_, err := p.TryCompleteElseWatchAt(&op{}, hour, purgatory.KeyPosition[string]{Key: "a", Position: 2})
		require.NoError(t, err)
	}
	never := func() bool { return false }
	first, give := context.WithCancel(t.Context())
	second, up := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 50 {
		waiting.Go(func() {
			assert.ErrorIs(t, p.AwaitAt(first, hour, never, purgatory.KeyPosition[string]{Key: "a", Position: 3}), context.Canceled)
			assert.ErrorIs(t, p.Await(second, hour, never, "b"), context.Canceled)
		})
	}
	eventually(t, func() bool { return p.NumDelayed() == 1+many+50 }, "they wait")
	walk := inBackground(func() { p.CompleteForKey("a") })
	<-g.entered
	give()
	eventually(t, func() bool { return p.Stats().Accepted == 1+many+2*50 }, "they wait for the other key")
	close(g.leave)
	walk()
	up()
	waiting.Wait()
}

func TestAWaitInSteadyStateAllocatesNothing(t *testing.T) {
	if purgatory.RaceDetector {
		t.Skip("it makes a sync.Pool drop items")
	}
	p := open[string](t)
	ctx := t.Context()
	p.CancelForKey("nobody waits for it", nil)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = p.Await(ctx, hour, func() bool { return true }, "a") }), "ready at once")
	tries := 0
	second := func() bool { tries++; return tries%2 == 0 }
	for range 10 {
		_ = p.Await(ctx, hour, second, "a")
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = p.Await(ctx, hour, second, "a") }), "registered")

	wake, woken := make(chan struct{}), make(chan struct{})
	var met atomic.Bool
	go func() {
		for range wake {
			for !p.Awaited("b") {
				time.Sleep(time.Microsecond)
			}
			met.Store(true)
			p.CheckAndComplete("b")
			woken <- struct{}{}
		}
	}()
	ready := met.Load
	sleeps := func() {
		met.Store(false)
		wake <- struct{}{}
		_ = p.Await(ctx, hour, ready, "b")
		<-woken
	}
	least := 9.0 // goroutines of other tests allocate, too
	for range 300 {
		least = min(least, testing.AllocsPerRun(10, sleeps))
	}
	assert.Zero(t, least, "a wait that sleeps")
	close(wake)
}
