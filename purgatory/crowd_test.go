package purgatory_test

import (
	"context"
	"fmt"
	"os"
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

// soon ends the run, with the stacks of all goroutines, if f does not return in time: what f waits
// for may keep the end of the test waiting, too.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(patience / 10 * 8):
		stacks := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "--- FAIL: %s (did not happen: %s)\n%s", t.Name(), what, stacks[:runtime.Stack(stacks, true)])
		os.Exit(1)
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

// deepest is the maximum, in frames, of the stacks of the goroutines that call look.
type deepest struct{ frames atomic.Int64 }

func (d *deepest) look() {
	for n := int64(depth()); ; {
		was := d.frames.Load()
		if n <= was || d.frames.CompareAndSwap(was, n) {
			return
		}
	}
}

// Each completion of a chain completes the next operation. The stack stays small whatever
// the length of the chain, and however its keys lie in shards.
func TestChainsAreBoundedWhateverTheShards(t *testing.T) {
	const maxFrames = 4000 // of some hundred bytes each: below a megabyte
	length := 20_000
	if purgatory.RaceDetector || testing.Short() {
		length = 3000
	}
	for _, shards := range []int{1, 64, 1024, 65_536} {
		for _, where := range []string{"OnComplete", "TryComplete", "OnComplete of two purgatories", "OnComplete beside a crowd"} {
			t.Run(where+" "+strconv.Itoa(shards), func(t *testing.T) {
				p := open[int](t, purgatory.WithWatcherShards(shards))
				q := p
				if where == "OnComplete of two purgatories" {
					q = open[int](t, purgatory.WithWatcherShards(shards))
				}
				at := func(i int) *intPurgatory {
					if i%2 == 0 {
						return p
					}
					return q
				}
				disperse := func() {}
				if where == "OnComplete beside a crowd" {
					disperse = crowd(t, p, 200)
					for range 1000 { // by now few completions look at their stack
						o := &op{}
						submit(t, p, o, hour, -1)
						require.True(t, p.ForceComplete(o))
					}
				}
				var seen deepest
				var reached, done atomic.Int64
				all := make([]*op, length)
				for i := range all {
					next := func() {
						if i%61 == 0 {
							seen.look()
						}
						if i+1 < length {
							reached.Store(int64(i + 1))
							at(i + 1).CheckAndComplete(i + 1)
						}
					}
					o := &op{}
					all[i] = o
					o.try = func() bool { return reached.Load() >= int64(i) }
					o.complete = func() { next(); done.Add(1) }
					if where == "TryComplete" {
						o.complete = func() { done.Add(1) }
						o.try = func() bool {
							if reached.Load() < int64(i) {
								return false
							}
							next()
							return true
						}
					}
				}
				reached.Store(-1)
				for i, o := range all {
					submit(t, at(i), o, hour, i)
				}
				reached.Store(0)
				p.CheckAndComplete(0)
				eventually(t, func() bool { return done.Load() == int64(length) }, "every one completes")
				disperse()
				require.NoError(t, p.Shutdown(t.Context()))
				require.NoError(t, q.Shutdown(t.Context()))
				for _, o := range all {
					require.EqualValues(t, 1, o.completed.Load())
				}
				assert.Less(t, seen.frames.Load(), int64(maxFrames))
			})
		}
	}
}

// waker is an operation whose TryComplete changes state that operations of other keys wait
// for, and checks these keys: Kafka's share fetch does so when it gives back a lock.
type waker struct {
	operation.DelayedOperation
	try      func() bool
	finished atomic.Int64
}

func (w *waker) TryComplete() bool { return w.try() }
func (w *waker) OnComplete()       { w.finished.Add(1) }
func (w *waker) OnExpiration()     {}

// Checks that are made inside a TryComplete, and that come back to the key that is being checked, cost at
// most a small constant times the number of waiting operations, and lose no wake-up.
func TestChecksInsideATryAreBounded(t *testing.T) {
	graphs := map[string]func(key int) []int{
		"own key": func(key int) []int { return []int{key} },
	}
	keys := map[string]int{"own key": 1}
	for name, checks := range graphs {
		for _, each := range []int{1, 2, 3, 6, 10, 1000} {
			if each = min(each, 1200/keys[name]); purgatory.RaceDetector || testing.Short() {
				each = min(each, 100)
			}
			t.Run(name+" "+strconv.Itoa(each), func(t *testing.T) {
				p := open[int](t)
				var tries, calls atomic.Int64
				var round atomic.Int64 // of the outermost calls
				var caller atomic.Value
				caller.Store("")
				var all []*waker
				for key := range keys[name] {
					for range each {
						w := new(waker)
						w.try = func() bool {
							tries.Add(1)
							if goroutineID() == caller.Load() {
								calls.Add(1)
							}
							if round.Load() == 0 {
								return false // registering
							}
							// Before the checks: an operation that ends wakes the next
							// ones up after the condition is met.
							met := round.Load() >= 3
							for _, other := range checks(key) {
								p.CheckAndComplete(other)
							}
							return met
						}
						all = append(all, w)
						_, err := p.TryCompleteElseWatch(w, hour, key)
						require.NoError(t, err)
					}
				}
				caller.Store(goroutineID())
				for r := int64(1); r <= 2; r++ {
					round.Store(r)
					calls.Store(0)
					soon(t, "the caller is not kept", func() {
						caller.Store(goroutineID())
						p.CheckAndComplete(0)
					})
					assert.LessOrEqual(t, calls.Load(), int64(16*len(all)+64), "tries in one call, of %d waiters", len(all))
				}
				round.Store(3)
				soon(t, "no wake-up is lost", func() {
					eventually(t, func() bool {
						p.CheckAndComplete(0) // in a graph without a cycle the test makes the first check
						return p.NumDelayed() == 0
					}, "all end")
				})
				require.NoError(t, p.Shutdown(t.Context()))
				for _, w := range all {
					require.EqualValues(t, 1, w.finished.Load())
				}
			})
		}
	}
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
