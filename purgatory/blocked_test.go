package purgatory_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestBlockedCallbacksDoNotHoldUpLaterOnes(t *testing.T) {
	// Many goroutines are blocked in callbacks of one shard, more than there are workers,
	// until the callback of the operation that ends last releases them.
	const workers = 4
	const blocked = 64 + workers - 1
	p := open[int](t, purgatory.WithWatcherShards(1), purgatory.WithReapInterval(time.Millisecond), purgatory.WithExpiryWorkers(workers))
	var waiting atomic.Int32
	release := make(chan struct{})
	var waits []func()
	for i := range blocked {
		o := &op{complete: func() { waiting.Add(1); <-release }}
		submit(t, p, o, hour, i)
		waits = append(waits, inBackground(func() { p.ForceComplete(o) }))
	}
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "all are ended")
	key := submitted(t, p, blocked)
	key.complete = func() { close(release) }
	assert.True(t, p.ForceComplete(key))
	for _, wait := range waits {
		wait()
	}
	eventually(t, func() bool { return waiting.Load() == blocked }, "every callback runs")
	ended(t, key, operation.Forced)
	require.NoError(t, p.Shutdown(aWhile(t)), "no goroutine counts as being inside a callback")
}

// Tests with many operations and many goroutines.

// Any number of callbacks may block, and no other operation waits for them. With one shard,
// all goroutines pass one gate.
func TestBlockedCallbacksDelayNobody(t *testing.T) {
	for _, blocked := range []int{1, 64, 66, 1000} {
		t.Run(strconv.Itoa(blocked), func(t *testing.T) {
			p := open[int](t, purgatory.WithWatcherShards(1))
			release := make(chan struct{})
			var inside atomic.Int64
			var wg sync.WaitGroup
			for i := range blocked {
				o := &op{complete: func() { inside.Add(1); <-release }}
				submit(t, p, o, hour, i%3)
				wg.Go(func() { assert.True(t, p.ForceComplete(o)) })
			}
			defer wg.Wait()
			defer sync.OnceFunc(func() { close(release) })()
			eventually(t, func() bool { return inside.Load() == int64(blocked) }, "all of them block")

			soon(t, "other operations are tried, end and expire", func() {
				var met atomic.Bool
				o := until(&met)
				submit(t, p, o, hour, 0, 99)
				met.Store(true)
				assert.Equal(t, 1, p.CheckAndComplete(0))
				ended(t, o, operation.Satisfied)

				cancelled := submitted(t, p, 1)
				assert.True(t, p.Cancel(cancelled, errGone))
				ended(t, cancelled, operation.Cancelled)

				signalled := until(&met)
				met.Store(false)
				submit(t, p, signalled, hour, 2)
				met.Store(true)
				p.Signal(2)
				eventually(t, func() bool { return signalled.completed.Load() == 1 }, "a worker is free")

				expires := &op{}
				submit(t, p, expires, time.Millisecond, 0)
				eventually(t, func() bool { return expires.expired.Load() == 1 }, "timeouts go on")

				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(errGone)
				assert.ErrorIs(t, p.Await(ctx, hour, func() bool { return false }, 0), errGone)
			})
			assert.EqualValues(t, blocked, inside.Load())
		})
	}
}

// goroutineID returns the runtime's name of the calling goroutine.
func goroutineID() string {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	return string(buf[:slices.Index(buf, '[')])
}

// Many goroutines check one key in a loop. Each runs the callbacks of the operations that
// its own check has ended, and no others.
func TestNobodyRunsAnotherGoroutinesCallbacks(t *testing.T) {
	const handlers, least = 200, 5
	p := open[string](t)
	var mu sync.Mutex
	ends := map[string]int{} // by goroutine: what its checks say that they have ended
	runs := map[string]int{} // by goroutine: callbacks
	served := make([]int, handlers)
	var done atomic.Bool
	var wg sync.WaitGroup
	for h := range handlers {
		wg.Go(func() {
			me := goroutineID()
			for !done.Load() {
				var met atomic.Bool
				answered := make(chan struct{})
				o := until(&met)
				o.complete = func() {
					id := goroutineID()
					mu.Lock()
					runs[id]++
					mu.Unlock()
					time.Sleep(100 * time.Microsecond)
					close(answered)
				}
				completed, err := p.TryCompleteElseWatch(o, hour, "hot")
				if !assert.NoError(t, err) || !assert.False(t, completed) {
					return
				}
				met.Store(true)
				n := p.CheckAndComplete("hot")
				mu.Lock()
				ends[me] += n
				mu.Unlock()
				<-answered
				mu.Lock()
				served[h]++
				if slices.Min(served) >= least {
					done.Store(true)
				}
				mu.Unlock()
			}
		})
	}
	soon(t, "every handler is served", wg.Wait)
	for handler, n := range ends { // a check that has tried one operation eight times leaves the rest to a worker
		assert.Equal(t, n, runs[handler], handler)
	}
	assert.Zero(t, p.NumDelayed())
}

func TestACallbackThatBlocksHoldsUpNoOtherKey(t *testing.T) {
	p := open[string](t, purgatory.WithWatcherShards(1), purgatory.WithExpiryWorkers(2))
	leave := make(chan struct{})
	blocked := submitted(t, p, "a")
	blocked.complete = func() { <-leave }
	wait := inBackground(func() { p.ForceComplete(blocked) })
	eventually(t, func() bool { return blocked.completed.Load() == 1 }, "it is in its callback")
	for range 200 { // more than are allowed to nest
		o := submitted(t, p, "a", "b")
		assert.True(t, p.Cancel(o, errGone))
		ended(t, o, operation.Cancelled)
	}
	expires := &op{}
	submit(t, p, expires, time.Millisecond, "a")
	eventually(t, func() bool { return expires.expired.Load() == 1 }, "timeouts go on")
	close(leave)
	wait()
}

func TestCallbacksRunInlineBesideManyBlockedGoroutines(t *testing.T) {
	p := open[int](t, purgatory.WithWatcherShards(1), purgatory.WithSignalWorkers(1))
	disperse := crowd(t, p, 100)
	defer disperse()
	for name, end := range map[string]func(o *op) bool{
		"force":  func(o *op) bool { return p.ForceComplete(o) },
		"check":  func(*op) bool { return p.CheckAndComplete(1) == 1 },
		"cancel": func(*op) bool { return p.CancelForKey(1, errGone) == 1 },
	} {
		var met atomic.Bool
		o := until(&met)
		submit(t, p, o, hour, 1)
		met.Store(true)
		assert.True(t, end(o), name)
		assert.EqualValues(t, 1, o.completed.Load(), "%s: its callback has run on this goroutine", name)
	}
}

// While a worker is free, callbacks that were handed over run, however many others block. A
// worker that a callback ends by runtime.Goexit is replaced.
func TestHandedCallbacksRunOnAnyFreeWorker(t *testing.T) {
	const n = 8
	p := onManualClock[string](t, purgatory.WithSignalWorkers(n))
	var running, ended atomic.Int32
	together := make(chan struct{})
	for i := range n {
		o := &op{complete: func() {
			defer ended.Add(1)
			if running.Add(1) == n {
				close(together)
			}
			<-together
			if i%2 == 0 {
				runtime.Goexit()
			}
		}}
		_, err := p.TryCompleteElseWatch(o, time.Hour, "a")
		require.NoError(t, err)
	}
	p.CloseOnWorkers()
	select {
	case <-together:
	case <-time.After(deadline):
		t.Fatal("one waits for another")
	}
	require.Eventually(t, p.Idle, deadline, time.Millisecond)
	assert.EqualValues(t, n, ended.Load())
}

// A callback that blocks holds up its own worker only.
func TestABlockedCallbackDoesNotStopSignalAll(t *testing.T) {
	p := open[int](t, purgatory.WithSignalWorkers(2))
	var set atomic.Bool
	var done atomic.Int64
	leave := make(chan struct{})
	for i := range 2000 {
		wait(t, p, &flagged{flag: &set, done: func() {
			if done.Add(1) == 100 {
				<-leave
			}
		}}, i)
	}
	set.Store(true)
	p.SignalAll()
	eventually(t, func() bool { return done.Load() == 2000 }, "done.Load() == 2000")
	close(leave)
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "p.NumDelayed() == 0")
}
