package purgatory_test

import (
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
