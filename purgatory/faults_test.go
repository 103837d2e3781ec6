package purgatory_test

import (
	"context"
	"runtime"
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

// A registration whose TryComplete panics each time, while each of its tries asks for another one, returns.
func TestARegistrationThatPanicsAndIsAskedForMoreReturns(t *testing.T) {
	var told panics
	p := onManualClock[string](t, told.option())
	o := &op{}
	o.try = func() bool {
		inBackground(func() { p.CheckAndComplete("a") })()
		panic("of the try's")
	}
	submit(t, p, o, hour, "a")
	assert.LessOrEqual(t, o.tries.Load(), int32(2+8), "and a worker's tries in a row")
	p.ForceComplete(o)
	endsSoon(t, o, operation.Forced)
}

// A chain of completions in order, each begun in the TryComplete of the one before, keeps the stack small, also
// after the first batch.
func TestAChainOfChecksInOrderThroughTryCompleteKeepsTheStackSmall(t *testing.T) {
	const all = 20_000
	p := open[int](t, purgatory.WithWatcherShards(4))
	var deepest, ended atomic.Int64
	for i := range all {
		o := afterRegistration(func(*op) bool {
			if i%64 == 0 {
				deepest.Store(max(deepest.Load(), int64(depth())))
			}
			if i+1 < all {
				p.CheckAndCompleteInOrder(i + 1)
			}
			return true
		})
		o.complete = func() { ended.Add(1) }
		submit(t, p, o, hour, i)
	}
	p.CheckAndCompleteInOrder(0)
	eventually(t, func() bool { return ended.Load() == all }, "every operation completes")
	assert.Less(t, deepest.Load(), int64(10_000), "frames")
}

// The callbacks of operations that wait for a worker weigh little: no batch is kept for each.
func TestEndedOperationsThatWaitForAWorkerWeighLittle(t *testing.T) {
	const all = 10_000
	p := open[int](t, purgatory.WithSignalWorkers(1), purgatory.WithDrainTime(0))
	release := make(chan struct{})
	for i := range all {
		submit(t, p, &op{complete: func() { <-release }}, hour, i)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Shutdown(over))
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc-before.HeapAlloc)/all, int64(400), "bytes for each")
	close(release)
	require.NoError(t, p.Shutdown(t.Context()))
}

// A panic handler that blocks holds up its own goroutine, and not the line.
func TestAPanicHandlerThatBlocksDoesNotStopTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := onManualClock[string](t, purgatory.WithPanicHandler(func(any, []byte) { <-release }))
		first := afterRegistration(func(*op) bool { panic("of the try's") })
		submit(t, p, first, hour, "a")
		met := false
		second := afterRegistration(func(*op) bool { return met })
		submit(t, p, second, hour, "a")
		go p.CheckAndCompleteInOrder("a") // passes over the first, and the second says no
		synctest.Wait()
		met = true
		go p.CheckAndCompleteInOrder("a")
		synctest.Wait()
		assert.Equal(t, operation.Satisfied, second.Outcome())
		close(release)
	})
}

// A wait that was met returns although callbacks block every worker.
func TestAnAwaitNeedsNoWorkerToReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("test", purgatory.WithCallbacksOnWorkers(), purgatory.WithSignalWorkers(1))
		require.NoError(t, err)
		release := make(chan struct{})
		blocks := &op{complete: func() { <-release }}
		blocks.try = func() bool { return blocks.tries.Load() > 2 }
		submit(t, p, blocks, hour, "a")
		p.CheckAndComplete("a")
		synctest.Wait()
		var met atomic.Bool
		result := make(chan error, 1)
		go func() { result <- p.Await(t.Context(), hour, met.Load, "b") }()
		synctest.Wait()
		met.Store(true)
		p.CheckAndComplete("b")
		assert.NoError(t, <-result)
		close(release)
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// A nil match matches nothing.
func TestANilMatchCancelsNothing(t *testing.T) {
	p := onManualClock[string](t)
	o := submitted(t, p, "a")
	assert.Empty(t, p.CancelMatching("a", errGone, nil))
	pending(t, o)
}

// How long an operation has waited is known when it ends.
func TestWaitedSaysHowLongAnOperationHasWaited(t *testing.T) {
	p := onManualClock[string](t)
	o := &op{}
	var waited time.Duration
	o.complete = func() { waited = p.Waited(o) }
	submit(t, p, o, hour, "a")
	p.AdvanceClock(3 * time.Second)
	p.ForceComplete(o)
	assert.Equal(t, 3*time.Second, waited)
	assert.Zero(t, onManualClock[string](t).Waited(o), "in another purgatory")
	assert.Zero(t, p.Waited(nil))
}

// A purgatory that is not used costs no goroutine, and little memory.
func TestAPurgatoryThatIsNotUsedIsLight(t *testing.T) {
	before := runtime.NumGoroutine()
	allocations := testing.AllocsPerRun(20, func() {
		p, err := purgatory.New[string]("test")
		require.NoError(t, err)
		require.NoError(t, p.Close())
	})
	assert.LessOrEqual(t, allocations, 40.0)
	assert.Equal(t, before, runtime.NumGoroutine())
	t.Log(allocations)
}

// A timer that is passed in is driven although no operation waits: it may have other users.
func TestATimerThatIsPassedInIsDriven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := timer.NewSystemTimer()
		require.NoError(t, err)
		p, err := purgatory.New[string]("test", purgatory.WithTimer(shared))
		require.NoError(t, err)
		fired := make(chan struct{})
		_, err = shared.AfterFunc(time.Second, func() { close(fired) })
		require.NoError(t, err)
		<-fired
		require.NoError(t, p.Shutdown(t.Context()))
		shared.Stop()
	})
}
