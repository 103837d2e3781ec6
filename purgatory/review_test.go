package purgatory_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// inTime waits up to ten seconds, for tests that a fault would otherwise keep for minutes.
func inTime(done func() bool) bool {
	for range 10_000 {
		if done() {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// What goes on after a runtime.Goexit runs the callbacks of what it ends, as any goroutine whose
// stack is small does. So a callback may wait for those of another operation that it has ended,
// even if no signal worker is free.
func TestACallbackAfterAGoexitRunsTheCallbacksOfWhatItEnds(t *testing.T) {
	p := open[int](t, purgatory.WithWatcherShards(1), purgatory.WithSignalWorkers(1))
	var met atomic.Bool
	leaver, ender, other := until(&met), until(&met), &op{}
	done := make(chan struct{})
	leaver.complete = runtime.Goexit
	other.complete = func() { close(done) }
	var forced, inline atomic.Bool
	giveUp := make(chan struct{})
	ender.complete = func() {
		forced.Store(p.ForceComplete(other))
		inline.Store(other.completed.Load() == 1)
		select {
		case <-done:
		case <-giveUp:
		}
	}
	submit(t, p, other, hour, 2)
	submit(t, p, leaver, hour, 1)
	submit(t, p, ender, hour, 1)
	met.Store(true)
	p.Signal(1)
	answered := inTime(func() bool { return other.completed.Load() == 1 })
	assert.True(t, answered, "the only signal worker waits for the goroutine that goes on, and that for the signal worker")
	close(giveUp)
	require.NoError(t, p.Shutdown(t.Context()))
	assert.True(t, forced.Load())
	assert.True(t, inline.Load(), "ForceComplete returns when the callbacks have returned")
}

// On a manual clock the callbacks of what has expired have run when AdvanceClock ends, also after
// a runtime.Goexit in one of them, and beside a blocked callback.
func TestAGoexitInAdvanceClockLeavesNoCallbackToAWorker(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithWatcherShards(1), purgatory.WithSignalWorkers(1))
	release, inside := make(chan struct{}), make(chan struct{})
	var met atomic.Bool
	blocked := until(&met)
	blocked.complete = func() { close(inside); <-release }
	submit(t, p, blocked, hour, 1)
	met.Store(true)
	p.Signal(1) // its callback blocks the signal worker
	<-inside
	leaver, second := &op{complete: runtime.Goexit}, &op{}
	submit(t, p, leaver, time.Second, 2)
	submit(t, p, second, 2*time.Second, 2)
	inBackground(func() { p.AdvanceClock(3 * time.Second) })()
	ended(t, leaver, operation.Expired)
	ended(t, second, operation.Expired)
	close(release)
	require.NoError(t, p.Shutdown(t.Context()))
}

// An executor may run a worker on a goroutine whose stack is deep already.
func TestHandedCallbacksRunOnAnExecutorWithADeepStack(t *testing.T) {
	var deeper func(n int, f func())
	deeper = func(n int, f func()) {
		if n == 0 {
			f()
			return
		}
		deeper(n-1, f)
	}
	p := onManualClock[int](t, purgatory.WithWatcherShards(1),
		purgatory.WithExecutor(func(run func()) error {
			go deeper(500, run)
			return nil
		}))
	disperse := crowd(t, p, 1)
	o := &op{}
	submit(t, p, o, hour, 1)
	deeper(500, func() { p.ForceComplete(o) })
	assert.True(t, inTime(func() bool { return o.completed.Load() == 1 }), "a worker runs it, beside a blocked callback")
	disperse()
	require.NoError(t, p.Shutdown(t.Context()))
	ended(t, o, operation.Forced)
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
