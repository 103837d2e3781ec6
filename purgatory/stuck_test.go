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
)

// Each stuck callback is logged once, however many are stuck at the same time; ten in a second.
func TestEachStuckCallbackIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const threshold = time.Second
		var log records
		p := onManualClock[string](t, purgatory.WithSlowCallback(threshold), purgatory.WithLogger(slog.New(&log)))
		leave := make(chan struct{})
		var group sync.WaitGroup
		const all = 25
		for range all {
			o := &op{complete: func() { <-leave }}
			_, err := p.TryCompleteElseWatch(o, time.Hour, "a")
			require.NoError(t, err)
			group.Go(func() { p.ForceComplete(o) })
		}
		sweep := func() { p.AdvanceClock(0); synctest.Wait() }
		synctest.Wait()
		time.Sleep(threshold)
		sweep()
		assert.Zero(t, p.Stats().StuckCallbacks, "they have not been running for longer than the threshold")
		assert.Empty(t, log.find(purgatory.EventStuck))
		time.Sleep(time.Nanosecond)
		assert.EqualValues(t, all, p.Stats().StuckCallbacks)
		for i := range 5 {
			sweep()
			found := log.find(purgatory.EventStuck)
			assert.Len(t, found, min(10*(i+1), all))
			for _, r := range found {
				assert.NotContains(t, r, "suppressed", "the other ones are logged later")
			}
			time.Sleep(time.Second)
		}
		close(leave)
		group.Wait()
	})
}

// The stack of a stuck callback is found among those of thousands of goroutines.
func TestAStuckStackIsFoundInACrowd(t *testing.T) {
	const crowd = 6000 // their stacks are more than a megabyte
	var log records
	p := onManualClock[string](t, purgatory.WithSlowCallback(1), purgatory.WithStuckStacks(), purgatory.WithLogger(slog.New(&log)))
	leave := make(chan struct{})
	var group sync.WaitGroup
	for range crowd {
		group.Go(func() { <-leave })
	}
	var entered sync.WaitGroup
	for range 3 {
		entered.Add(1)
		o := &stuckInACrowd{op{complete: func() { entered.Done(); <-leave }}}
		_, err := p.TryCompleteElseWatch(o, time.Hour, "a")
		require.NoError(t, err)
		group.Go(func() { p.ForceComplete(o) })
	}
	entered.Wait()
	assert.Eventually(t, func() bool {
		p.AdvanceClock(0)
		return len(log.find(purgatory.EventStuck)) == 3
	}, time.Minute, time.Millisecond)
	for _, r := range log.find(purgatory.EventStuck) {
		assert.Contains(t, r["stack"], "stuckInACrowd")
	}
	close(leave)
	group.Wait()
}

type stuckInACrowd struct{ op }

func (s *stuckInACrowd) OnComplete() { s.complete() }

// A clock that always finds something to expire sweeps all the same.
func TestAnAdvanceThatExpiresSomethingSweepsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p := onManualClock[string](t, purgatory.WithSlowCallback(time.Second), purgatory.WithLogger(slog.New(&log)))
		leave := make(chan struct{})
		stuck := &op{complete: func() { <-leave }}
		_, err := p.TryCompleteElseWatch(stuck, time.Hour, "a")
		require.NoError(t, err)
		go p.ForceComplete(stuck)
		time.Sleep(2 * time.Second)
		probed(t, p, time.Millisecond, "b")
		assert.True(t, p.AdvanceClock(time.Millisecond))
		synctest.Wait()
		assert.Len(t, log.find(purgatory.EventStuck), 1)
		close(leave)
	})
}

// Three callbacks that block differ in method, key, outcome and age, and in how long they have been running: each
// record has its own.
func TestStuckCallbacksThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p := onManualClock[string](t, purgatory.WithSlowCallback(time.Second), purgatory.WithLogger(slog.New(&log)))
		leave := make(chan struct{})
		block := func() { <-leave }
		var begun atomic.Bool
		completes, expires := &op{complete: block}, &op{expire: block}
		tried := &op{try: func() bool {
			if begun.Load() {
				block()
			}
			return false
		}}
		submit(t, p, completes, hour, "a")
		p.AdvanceClock(time.Second)
		submit(t, p, tried, hour, "b")
		p.AdvanceClock(time.Second)
		submit(t, p, expires, time.Second, "c")
		begun.Store(true)
		var group sync.WaitGroup
		for _, blocks := range []func(){
			func() { p.ForceComplete(completes) },
			func() { p.CheckAndComplete("b") },
			func() { p.AdvanceClock(time.Second) },
		} {
			group.Go(blocks)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		s := p.Stats()
		assert.Equal(t, []int64{3, 0, int64(4 * time.Second)}, []int64{s.StuckCallbacks, s.SlowCallbacks, int64(s.OldestRunning)})
		p.AdvanceClock(0)
		synctest.Wait()
		close(leave)
		group.Wait()
		synctest.Wait()
		type record struct {
			callback     string
			elapsed, age time.Duration
			outcome      any
		}
		of := func(event string) map[any]record {
			all := map[any]record{}
			for _, r := range log.find(event) {
				all[r["key"]] = record{r["callback"].(string), r["elapsed"].(time.Duration), r["age"].(time.Duration), r["outcome"]}
			}
			return all
		}
		second := time.Second
		assert.Equal(t, map[any]record{
			"a": {"OnComplete", 4 * second, 3 * second, nil},
			"b": {"TryComplete", 3 * second, 2 * second, nil},
			"c": {"OnExpiration", 2 * second, second, nil},
		}, of(purgatory.EventStuck))
		assert.Equal(t, map[any]record{
			"a": {"OnComplete", 4 * second, 3 * second, "forced"},
			"b": {"TryComplete", 3 * second, 2 * second, "pending"},
			"c": {"OnExpiration", 2 * second, second, "expired"},
		}, of(purgatory.EventSlow))
		s = p.Stats()
		assert.Equal(t, []int64{0, 3, 0}, []int64{s.StuckCallbacks, s.SlowCallbacks, int64(s.OldestRunning)})
		assert.Len(t, log.all, 6, "nothing else is logged")
	})
}

// Expired operations that wait for a worker for a second are no record, for longer one a second.
func TestWhatIsDueIsLoggedAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p, err := purgatory.New[string]("due", purgatory.WithExpiryWorkers(1), purgatory.WithoutReaper(), purgatory.WithLogger(slog.New(&log)))
		require.NoError(t, err)
		leave := make(chan struct{})
		for range 3 {
			submit(t, p, &op{complete: func() { <-leave }}, time.Second, "a")
		}
		require.True(t, p.AdvanceClock(hour))
		for i, pause := range []time.Duration{0, time.Second, time.Second - 1, 1, time.Second} {
			time.Sleep(pause)
			p.Sweep(0)
			synctest.Wait()
			require.Len(t, log.all, max(i-2, 0), "after another %v", pause)
		}
		s := p.Stats()
		assert.Equal(t, []int64{1, 2, int64(3 * time.Second)}, []int64{s.Running, s.Due, int64(s.OldestDue)})
		for i, rec := range log.find(purgatory.EventDue) {
			assert.Equal(t, []any{2, time.Duration(i+2) * time.Second}, []any{int(rec["due"].(int64)), rec["elapsed"]})
		}
		close(leave)
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// A sick day: forty operations expire, and two workers are stuck in their callbacks.
func TestStuckCallbacksAreCountedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p, err := purgatory.New[string]("produce", purgatory.WithExpiryWorkers(2), purgatory.WithSlowCallback(20*time.Millisecond), purgatory.WithStuckStacks(), purgatory.WithLogger(slog.New(&log)))
		require.NoError(t, err)
		leave := make(chan struct{})
		for range 40 {
			_, err := p.TryCompleteElseWatch(&stuck{leave: leave}, time.Second, "a")
			require.NoError(t, err)
		}
		s := p.Stats()
		assert.Zero(t, s.Running+s.Due+s.StuckCallbacks)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		s = p.Stats()
		assert.EqualValues(t, 2, s.Running)
		assert.EqualValues(t, 2, s.StuckCallbacks)
		assert.InDelta(t, 3, s.OldestRunning.Seconds(), 0.1)
		assert.EqualValues(t, 38, s.Due)
		assert.InDelta(t, 3, s.OldestDue.Seconds(), 0.1)
		assert.Zero(t, s.SlowCallbacks, "they have not returned")
		found := log.find(purgatory.EventStuck)
		require.Len(t, found, 2, "once each")
		for _, rec := range found {
			assert.Equal(t, slog.LevelWarn, rec["level"])
			assert.Equal(t, "produce", rec["purgatory"])
			assert.Equal(t, "*purgatory_test.stuck", rec["operation"])
			assert.Equal(t, "OnComplete", rec["callback"])
			assert.GreaterOrEqual(t, rec["elapsed"], 20*time.Millisecond)
			assert.Contains(t, rec["stack"], "(*stuck).OnComplete")
		}
		waiting := log.find(purgatory.EventDue)
		require.NotEmpty(t, waiting)
		assert.LessOrEqual(t, len(waiting), 3, "once a second, after the first")
		assert.Equal(t, slog.LevelWarn, waiting[0]["level"])
		assert.EqualValues(t, 38, waiting[0]["due"])
		assert.InDelta(t, 1.5, waiting[0]["elapsed"].(time.Duration).Seconds(), 0.6)
		close(leave)
		require.NoError(t, p.Shutdown(t.Context()))
		s = p.Stats()
		assert.EqualValues(t, 2, s.SlowCallbacks)
		assert.Zero(t, s.Running+s.Due+s.StuckCallbacks+int64(s.OldestRunning)+int64(s.OldestDue))
		slow := log.find(purgatory.EventSlow)
		require.Len(t, slow, 2)
		assert.Equal(t, "produce of client 7", slow[0]["operation"])
		assert.InDelta(t, 4, slow[0]["age"].(time.Duration).Seconds(), 0.1)
	})
}

// A TryComplete that panics, or calls runtime.Goexit, does not run any more.
func TestATryThatUnwindsIsSlowAndNotStuck(t *testing.T) {
	for name, unwind := range map[string]func(){"panic": func() { panic("of the user's") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := onManualClock[string](t, purgatory.WithSlowCallback(time.Second), purgatory.WithLogger(slog.New(&records{})))
				op := probed(t, p, time.Hour, "a")
				op.while = func() {
					op.while = nil
					time.Sleep(time.Minute)
					unwind()
				}
				go p.CheckAndComplete("a")
				time.Sleep(time.Hour)
				s := p.Stats()
				assert.Equal(t, []int64{0, 0, 1}, []int64{s.StuckCallbacks, int64(s.OldestRunning), s.SlowCallbacks})
			})
		})
	}
}

// A callback counts as stuck only after the threshold. The record of a stuck callback has a
// stack only with WithStuckStacks, because all goroutines stop while the runtime writes it.
func TestACallbackIsStuckOnlyAfterTheThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		p, err := purgatory.New[string]("produce", purgatory.WithSlowCallback(time.Second), purgatory.WithLogger(slog.New(&log)))
		require.NoError(t, err)
		leave := make(chan struct{})
		_, err = p.TryCompleteElseWatch(&stuck{leave: leave}, 0, "a")
		require.NoError(t, err)
		time.Sleep(900 * time.Millisecond)
		s := p.Stats()
		assert.EqualValues(t, 1, s.Running)
		assert.Zero(t, s.StuckCallbacks)
		assert.InDelta(t, 0.9, s.OldestRunning.Seconds(), 0.05)
		assert.Empty(t, log.find(purgatory.EventStuck))
		time.Sleep(time.Second)
		assert.EqualValues(t, 1, p.Stats().StuckCallbacks)
		found := log.find(purgatory.EventStuck)
		require.Len(t, found, 1)
		assert.NotContains(t, found[0], "stack")
		assert.Empty(t, log.find(purgatory.EventDue), "nothing waits for a worker")
		close(leave)
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// blockingKey is a key whose String method calls a function.
type blockingKey struct{ said *func() }

func (k blockingKey) String() string {
	if k.said != nil {
		(*k.said)()
	}
	return "key"
}

// While 300 callbacks are stuck and the logger, or the String method of a key, blocks with the
// record of one, other operations expire.
func TestTimeoutsPassWhileARecordOfAStuckCallbackBlocks(t *testing.T) {
	for _, blocks := range []string{"logger", "key"} {
		t.Run(blocks, func(t *testing.T) {
			var entered atomic.Int32
			leave := make(chan struct{})
			block := func() { entered.Add(1); <-leave }
			inLogger := block
			if blocks == "key" {
				inLogger = func() {}
			}
			p := open[blockingKey](t, purgatory.WithSlowCallback(time.Millisecond), purgatory.WithStuckStacks(),
				purgatory.WithReapInterval(5*time.Millisecond), on(purgatory.EventStuck, inLogger))
			out := make(chan struct{})
			var key blockingKey
			if blocks == "key" {
				key.said = &block
			}
			var wg sync.WaitGroup
			var in atomic.Int32
			for range 300 {
				o := &op{complete: func() { in.Add(1); <-out }}
				submit(t, p, o, hour, key)
				wg.Go(func() { p.ForceComplete(o) })
			}
			eventually(t, func() bool { return in.Load() == 300 }, "300 callbacks are stuck")
			eventually(t, func() bool { return entered.Load() > 0 }, "a record blocks")
			for range 20 {
				o := &op{}
				submit(t, p, o, 5*time.Millisecond, blockingKey{})
				require.True(t, inTime(func() bool { return o.expired.Load() == 1 }), "no timeout passes")
			}
			close(leave)
			close(out)
			wg.Wait()
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}

// TestAStallIsNoCallbackThatBlocks: what ran before the stall did not run during it.
func TestAStallIsNoCallbackThatBlocks(t *testing.T) {
	p := onManualClock[string](t)
	gate := p.Watchers().Shard(0).Gate()
	gate.Enter()
	defer gate.Exit(0)
	p.AdvanceClock(purgatory.GateInterval)
	p.AdvanceClock(10 * time.Second)
	assert.Equal(t, 10*time.Second, p.Stats().BlockedFor)
	p.Sweep(9 * time.Second) // the reaper has stalled
	assert.Zero(t, p.Stats().BlockedFor)
	p.AdvanceClock(2 * time.Second)
	assert.Equal(t, 2*time.Second, p.Stats().BlockedFor, "it goes on from there")
}

// TestCallbacksThatDoNotReturnAreTimedWithoutAnOption while others do, and whether or not somebody reads Stats.
func TestCallbacksThatDoNotReturnAreTimedWithoutAnOption(t *testing.T) {
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

// rescue is where a test of work that is left leaves it.
type rescue struct {
	*stringPurgatory
	t     *testing.T
	ops   []*op
	stays int         // so many of ops are to wait on
	armed atomic.Bool // the condition of those of some
}

// add registers an operation, which may be refused.
func (r *rescue) add(o *op, at ...purgatory.KeyPosition[string]) {
	r.ops = append(r.ops, o)
	_, _ = r.TryCompleteElseWatchAt(o, hour, at...)
}

// some registers n operations, which wait for r.armed.
func (r *rescue) some(n int, key string) {
	for range n {
		r.add(until(&r.armed), purgatory.KeyPosition[string]{Key: key, Position: purgatory.AnyPosition})
	}
	r.armed.Store(false)
}

// outer calls f in the callback of an operation, or in its third try.
func (r *rescue) outer(inTry bool, f func()) {
	o := &op{}
	r.add(o, purgatory.KeyPosition[string]{Key: "outer", Position: purgatory.AnyPosition})
	if !inTry {
		o.complete = f
		r.ForceComplete(o)
		return
	}
	o.try = func() bool { f(); return true }
	r.CheckAndComplete("outer")
}

// Whoever leaves work leaves it to somebody who finds it, though every other worker blocks, or all of them until one comes
// back: no sweep, no timeout and no second event helps. A Shutdown that comes to what is left ends it.
func TestWhatIsLeftIsFoundThoughTheOtherWorkersBlock(t *testing.T) {
	const workers = 2
	places := map[string]func(r *rescue){
		"the rest of an overdue walk": func(r *rescue) {
			const waiting, all = 130, 1000
			var arrive func()
			arrive = func() {
				if len(r.ops) < all {
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
			assert.Less(r.t, r.CheckAndCompleteUpTo("k", 1000), all/2)
		},
		"the rest of a line": func(r *rescue) {
			r.some(3*purgatory.BatchSize, "k")
			r.armed.Store(true)
			assert.LessOrEqual(r.t, r.CheckAndCompleteInOrder("k"), purgatory.BatchSize)
		},
		"a turn for which another came": func(r *rescue) {
			g := newGate()
			o := &op{}
			o.try = func() bool {
				said := r.armed.Load()
				if o.tries.Load() == 3 {
					g.pass()
				}
				return said
			}
			r.add(o, purgatory.KeyPosition[string]{Key: "k", Position: purgatory.AnyPosition})
			wait := inBackground(func() { r.CheckAndCompleteInOrder("k") })
			<-g.entered
			r.armed.Store(true)
			assert.Zero(r.t, r.CheckAndCompleteInOrder("k"))
			close(g.leave)
			wait()
		},
		"eight tries in a row": func(r *rescue) {
			o := &op{}
			o.try = func() bool {
				if o.tries.Load() > 2 {
					r.CheckAndComplete("k")
				}
				return o.tries.Load() > 2+purgatory.MaxInRow
			}
			r.add(o, purgatory.KeyPosition[string]{Key: "k", Position: purgatory.AnyPosition})
			assert.Zero(r.t, r.CheckAndComplete("k"))
		},
		"a check in a try": func(r *rescue) {
			r.some(2, "k")
			r.armed.Store(true)
			r.outer(true, func() { assert.Zero(r.t, r.CheckAndComplete("k")) })
		},
		"a check in order in a try": func(r *rescue) {
			r.some(2, "k")
			r.armed.Store(true)
			r.outer(true, func() { assert.Zero(r.t, r.CheckAndCompleteInOrder("k")) })
		},
		"callbacks on a deep stack": func(r *rescue) {
			r.some(2, "k")
			r.outer(false, func() { nest(machine.DeepStack, func() { r.CancelForKey("k", nil) }) })
		},
		"a check on a deep stack": func(r *rescue) {
			r.some(2, "k")
			r.armed.Store(true)
			r.outer(false, func() { nest(machine.DeepStack, func() { assert.Zero(r.t, r.CheckAndComplete("k")) }) })
		},
		"a first try that exits": func(r *rescue) {
			o := &op{}
			o.try = func() bool {
				if o.tries.Load() == 1 {
					r.CheckAndComplete("k") // it is in no list yet
					runtime.Goexit()
				}
				return true
			}
			inBackground(func() { r.add(o, purgatory.KeyPosition[string]{Key: "k", Position: purgatory.AnyPosition}) })()
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
					r := &rescue{stringPurgatory: onManualClock[string](t, purgatory.WithSignalWorkers(workers), purgatory.WithWatcherShards(1)), t: t}
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

// Of an event there are ten records in a second. Callbacks that are stuck beyond these have theirs later.
func TestEachOfManyStuckCallbacksIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(records)
		p := open[int](t, purgatory.WithSlowCallback(time.Second), purgatory.WithLogger(slog.New(log)), purgatory.WithExpiryWorkers(40))
		block := make(chan struct{})
		for i := range 35 {
			submit(t, p, &op{complete: func() { <-block }}, time.Second, i)
		}
		time.Sleep(2500 * time.Millisecond)
		assert.Len(t, log.find(purgatory.EventStuck), 10)
		time.Sleep(5 * time.Second)
		assert.Len(t, log.find(purgatory.EventStuck), 35)
		for _, r := range log.find(purgatory.EventStuck) {
			assert.NotContains(t, r, "suppressed")
		}
		close(block)
		synctest.Wait()
		require.NoError(t, p.Close())
	})
}
