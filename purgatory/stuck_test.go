package purgatory_test

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// A sick day: forty operations expire, and two workers are stuck in their callbacks. Stats says so from the first look on, and the log
// after two seconds.
func TestCallbacksThatDoNotReturnAreSeenAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p := open[string](t, purgatory.WithWorkers(2), purgatory.WithTimeoutsExpected(), purgatory.WithLogger(slog.New(&log)))
		leave := make(chan struct{})
		for range 40 {
			submit(t, p, &op{complete: func() { <-leave }}, time.Second, "a")
		}
		assert.Zero(t, p.Stats().Running)
		time.Sleep(2900 * time.Millisecond)
		assert.Empty(t, log.find(purgatory.EventStuck), "they have not been running for two seconds")
		time.Sleep(1100 * time.Millisecond)
		s := p.Stats()
		assert.Equal(t, []int64{2, 38}, []int64{s.Running, s.Due})
		assert.InDelta(t, 3, s.OldestDue.Seconds(), 0.1)
		assert.InDelta(t, 3, s.BlockedFor.Seconds(), 0.3)
		found := log.find(purgatory.EventStuck)
		require.NotEmpty(t, found)
		assert.Equal(t, []any{slog.LevelWarn, "test", "*purgatory_test.op", "a"},
			[]any{found[0]["level"], found[0]["purgatory"], found[0]["operation"], found[0]["key"]})
		assert.InDelta(t, 2.1, found[0]["elapsed"].(time.Duration).Seconds(), 0.2)
		waiting := log.find(purgatory.EventLate)
		require.NotEmpty(t, waiting)
		assert.LessOrEqual(t, len(waiting), 3, "once a second, after the first")
		assert.EqualValues(t, 38, waiting[0]["due"])
		close(leave)
		require.NoError(t, p.Shutdown(t.Context()))
		s = p.Stats()
		assert.Zero(t, s.Running+s.Due+int64(s.BlockedFor)+int64(s.OldestDue))
	})
}

// A TryComplete that blocks is seen, too. One that panics, or calls runtime.Goexit, does not run any more.
func TestATryThatBlocksIsSeenUntilItUnwinds(t *testing.T) {
	for name, unwind := range map[string]func(){"panic": func() { panic("of the user's") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told panics
				p := open[string](t, told.option())
				op := probed(t, p, hour, "a")
				op.while = func() {
					op.while = nil
					time.Sleep(time.Minute)
					unwind()
				}
				go p.CheckAndComplete("a")
				time.Sleep(59 * time.Second)
				assert.InDelta(t, 59, p.Stats().BlockedFor.Seconds(), 0.5)
				assert.Equal(t, "a", p.Inspect(0).Blocked[0].Key)
				time.Sleep(2 * time.Second)
				s := p.Stats()
				assert.Zero(t, s.Running+int64(s.BlockedFor))
			})
		})
	}
}

// Expired operations that wait for a worker for a second are no record, for longer one a second.
func TestWhatIsDueIsLoggedAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p, err := purgatory.New[string]("due", purgatory.WithWorkers(1), purgatory.WithoutReaper(), purgatory.WithTimeoutsExpected(), purgatory.WithLogger(slog.New(&log)))
		require.NoError(t, err)
		leave := make(chan struct{})
		for range 3 {
			submit(t, p, &op{complete: func() { <-leave }}, time.Second, "a")
		}
		require.True(t, p.AdvanceClock(hour))
		const look = purgatory.LookInterval
		for _, c := range []struct {
			pause   time.Duration
			records int
		}{{0, 0}, {time.Second, 0}, {look - 1, 0}, {1, 1}, {time.Second - 1, 1}, {look, 2}, {time.Second, 3}} {
			time.Sleep(c.pause)
			p.Sweep(false)
			synctest.Wait()
			require.Len(t, log.find(purgatory.EventLate), c.records, "after another %v", c.pause)
		}
		s := p.Stats()
		assert.Equal(t, []any{int64(1), int64(2), 3*time.Second + 2*look - 1}, []any{s.Running, s.Due, s.OldestDue})
		for i, rec := range log.find(purgatory.EventLate) {
			elapsed := []time.Duration{time.Second + look, 2*time.Second + 2*look - 1, 3*time.Second + 2*look - 1}[i]
			assert.Equal(t, []any{2, elapsed}, []any{int(rec["due"].(int64)), rec["elapsed"]})
		}
		close(leave)
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// What ran before the reaper stalled did not run meanwhile.
func TestAStallIsNoCallbackThatBlocks(t *testing.T) {
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := purgatory.New[string]("test", purgatory.WithTimer(clock))
	require.NoError(t, err)
	defer p.Close()
	g := newGate()
	o := submitted(t, p, "a")
	o.complete = g.pass
	wait := inBackground(func() { p.ForceComplete(o) })
	<-g.entered
	p.AdvanceClock(purgatory.LookInterval)
	p.AdvanceClock(10 * time.Second)
	assert.Equal(t, 10*time.Second, p.Stats().BlockedFor)
	clock.AdvanceClock(time.Hour)
	p.Sweep(true) // the reaper has stalled
	assert.Equal(t, 10*time.Second, p.Stats().BlockedFor)
	p.AdvanceClock(2 * time.Second)
	assert.Equal(t, 12*time.Second, p.Stats().BlockedFor, "it goes on from there")
	close(g.leave)
	wait()
}

// Callbacks that do not return are seen while others do, and whether or not somebody reads Stats.
func TestCallbacksThatDoNotReturnAreTimedBesideOthers(t *testing.T) {
	for _, looks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p, err := purgatory.New[string]("test")
			require.NoError(t, err)
			may := make(chan struct{})
			for i := range 20 { // of which some have a shard for themselves
				submit(t, p, &op{complete: func() { <-may }}, time.Second, strconv.Itoa(i))
			}
			for range 100 { // one expires every 100 ms
				submit(t, p, &op{}, time.Second, "b")
				time.Sleep(100 * time.Millisecond)
				if looks {
					p.Stats()
				}
			}
			assert.InDelta(t, 9, p.Stats().BlockedFor.Seconds(), 0.5)
			close(may)
			synctest.Wait()
			assert.Zero(t, p.Stats().BlockedFor)
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}

// Tests with many operations and many goroutines.

// Any number of callbacks may block, and no other operation waits for them. With one shard,
// all goroutines pass one gate.
func TestBlockedCallbacksDelayNobody(t *testing.T) {
	for _, blocked := range []int{1, 66, 1000} {
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
					runtime.Gosched()
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
	for handler, n := range ends { // workers end some, too
		assert.Equal(t, n, runs[handler], handler)
	}
	assert.Zero(t, p.NumDelayed())
}

func TestACallbackThatBlocksHoldsUpNoOtherKey(t *testing.T) {
	p := open[string](t, purgatory.WithWatcherShards(1), purgatory.WithWorkers(2))
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
	p := open[int](t, purgatory.WithWatcherShards(1), purgatory.WithWorkers(1))
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
	p := onManualClock[string](t, purgatory.WithWorkers(n))
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

// rescue is where a test of work that is left leaves it.
type rescue struct {
	*stringPurgatory
	t     *testing.T
	mu    sync.Mutex // for ops while workers run
	ops   []*op
	stays int         // so many of ops are to wait on
	armed atomic.Bool // the condition of those of some
}

// add registers an operation, which may be refused.
func (r *rescue) add(o *op, at ...purgatory.KeyPosition[string]) {
	r.mu.Lock()
	r.ops = append(r.ops, o)
	r.mu.Unlock()
	_, _ = r.TryCompleteElseWatchAt(o, hour, at...)
}

// some registers n operations, which wait for r.armed.
func (r *rescue) some(n int, key string) {
	for range n {
		r.add(until(&r.armed), purgatory.KeyPosition[string]{Key: key, Position: purgatory.AnyPosition})
	}
	r.armed.Store(false)
}

// force ends an operation, whose callback ends the next one, and so on, n of them.
func (r *rescue) force(n int) {
	o := &op{}
	if n > 1 {
		o.complete = func() { r.force(n - 1) }
	}
	r.add(o, purgatory.KeyPosition[string]{Key: "k", Position: purgatory.AnyPosition})
	r.ForceComplete(o)
}

// Whoever leaves work leaves it to somebody who finds it, though every other worker blocks, or all of them until one comes
// back: no sweep, no timeout and no second event helps. A Shutdown that comes to what is left ends it.
func TestWhatIsLeftIsFoundThoughTheOtherWorkersBlock(t *testing.T) {
	const workers = 2
	places := map[string]func(r *rescue){
		"the rest of an overdue walk": func(r *rescue) {
			const waiting, all = 130, 130 + 2*purgatory.BatchSize // none arrives once a worker goes on: it may be over before
			var arrive func()
			arrive = func() {
				r.mu.Lock()
				more := len(r.ops) < all
				r.mu.Unlock()
				if more {
					o := &op{complete: func() { arrive() }}
					o.try = func() bool { return o.tries.Load() > 2 } // not while it registers
					r.add(o, purgatory.KeyPosition[string]{Key: "k", Position: 5})
				}
			}
			for range waiting {
				arrive()
			}
			r.add(&op{}, purgatory.KeyPosition[string]{Key: "k", Position: 2000})
			r.stays++
			assert.Less(r.t, r.CheckAndCompleteUpTo("k", 1000), all)
		},
		"eight tries in a row": func(r *rescue) {
			o := &op{}
			o.try = func() bool {
				if o.tries.Load() > 2 {
					r.CheckAndComplete("k")
				}
				return o.tries.Load() > 2+2*purgatory.MaxInRow
			}
			r.add(o, purgatory.KeyPosition[string]{Key: "k", Position: purgatory.AnyPosition})
			assert.Zero(r.t, r.CheckAndComplete("k"))
		},
		"callbacks on a deep stack": func(r *rescue) {
			nest(machine.DeepStack, func() { r.force(2 * purgatory.LookEvery) })
		},
		"a first try that panics": func(r *rescue) {
			o := &op{}
			o.try = func() bool {
				if o.tries.Load() == 1 {
					panic("of the test")
				}
				return true
			}
			r.add(o, purgatory.KeyPosition[string]{Key: "k", Position: purgatory.AnyPosition})
		},
		"an expiry during the registration": func(r *rescue) {
			o := &op{}
			o.try = func() bool {
				if o.tries.Load() == 2 {
					r.AdvanceClock(2 * hour)
				}
				return false
			}
			r.add(o, purgatory.KeyPosition[string]{Key: "k", Position: purgatory.AnyPosition})
		},
		"signals of many keys": func(r *rescue) {
			for i := range 300 {
				r.some(1, strconv.Itoa(i))
			}
			r.armed.Store(true)
			for i := range 300 {
				r.Signal(strconv.Itoa(i))
			}
		},
		"what a worker that exits has not begun": func(r *rescue) {
			for _, key := range []string{"k", "l", "m"} {
				r.some(2, key)
				r.ops[len(r.ops)-2].complete = runtime.Goexit
			}
			r.armed.Store(true)
			r.Signal("k", "l", "m")
		},
	}
	for place, leave := range places {
		for name, blocked := range map[string]int{"one is free": workers - 1, "one comes back": workers, "one comes back, a Shutdown": workers} {
			t.Run(place+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := &rescue{stringPurgatory: onManualClock[string](t, purgatory.WithWorkers(workers), purgatory.WithWatcherShards(1), new(panics).option()), t: t}
					back := make(chan struct{})
					var busy []*op
					for i := range blocked {
						var met atomic.Bool
						o := until(&met)
						o.complete = func() { <-back }
						submit(t, r.stringPurgatory, o, hour, "busy"+strconv.Itoa(i))
						met.Store(true)
						r.Signal("busy" + strconv.Itoa(i))
						synctest.Wait()
						require.EqualValues(t, 1, o.completed.Load(), "it blocks its worker")
						busy = append(busy, o)
					}
					leave(r)
					synctest.Wait()
					answers := func() (n int64) {
						for _, o := range r.ops {
							assert.LessOrEqual(t, o.completed.Load(), int32(1))
							n += int64(o.completed.Load())
						}
						return n
					}
					if blocked == workers {
						require.Less(t, answers(), conserved(t, r.stringPurgatory).Accepted-int64(blocked+r.stays), "something is left")
						if name == "one comes back, a Shutdown" {
							wait := inBackground(func() { assert.ErrorIs(t, r.Shutdown(over(t)), context.Canceled) })
							synctest.Wait()
							r.stays = 0
							defer wait()
						}
						back <- struct{}{}
						synctest.Wait()
					}
					s := conserved(t, r.stringPurgatory)
					assert.EqualValues(t, r.stays, s.Pending)
					assert.Equal(t, s.Accepted-int64(r.stays+len(busy)), answers(), "all that was accepted is answered")
					close(back)
				})
			})
		}
	}
}
