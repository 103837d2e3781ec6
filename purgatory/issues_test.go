package purgatory_test

import (
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

// Each test here guards against a defect that another library had. Its name ends with the
// number of the public issue, if there is one.

func TestKAFKA6653AChangeDuringACheckIsSeen(t *testing.T) {
	// Kafka used a try-lock on the operation, to avoid a deadlock, and missed a change that
	// came while another goroutine held the lock.
	for range 300 {
		p := onManualClock[string](t)
		var a, b atomic.Bool
		o := &op{try: func() bool { ok := a.Load(); runtime.Gosched(); return ok && b.Load() }}
		submit(t, p, o, hour, "a", "b")
		var wg sync.WaitGroup
		wg.Go(func() { a.Store(true); p.CheckAndComplete("a") })
		wg.Go(func() { b.Store(true); p.CheckAndComplete("b") })
		wg.Wait()
		ended(t, o, operation.Satisfied)
	}
}

func TestKAFKA1952RegistrationDoesNotTryOncePerKey(t *testing.T) {
	p := onManualClock[int](t)
	keys := make([]int, 1000)
	for i := range keys {
		keys[i] = i
	}
	assert.EqualValues(t, 2, submitted(t, p, keys...).tries.Load())
}

func TestRocketMQ7359ARegistrationTriesASecondTime(t *testing.T) {
	p := onManualClock[string](t)
	var met atomic.Bool
	o := &op{}
	o.try = func() bool {
		seen := met.Load()
		if o.tries.Load() == 1 { // the state changes after the first try, before the operation is watched
			met.Store(true)
			assert.Zero(t, p.CheckAndComplete("a"))
		}
		return seen
	}
	completed, err := p.TryCompleteElseWatch(o, hour, "a")
	require.NoError(t, err)
	assert.True(t, completed)
}

func TestKAFKA9198AMissingCheckShowsAsExpiries(t *testing.T) {
	// State changes and no goroutine calls CheckAndComplete. The counters show it: operations end
	// only by timeout, and no check has tried them.
	p := onManualClock[string](t)
	var met atomic.Bool
	for range 10 {
		submit(t, p, until(&met), time.Second, "a")
	}
	met.Store(true)
	p.AdvanceClock(time.Second)
	s := p.Stats()
	assert.EqualValues(t, 10, s.Expired)
	assert.Zero(t, s.Satisfied)
	assert.Zero(t, s.Checks)
}

func TestKAFKA3994NoLockIsHeldWhileUserCodeRuns(t *testing.T) {
	// There are two operations. TryComplete and OnComplete of each take the other's lock and
	// check the other's key.
	p := onManualClock[int](t, purgatory.WithWatcherShards(1))
	var locks [2]sync.Mutex
	var met atomic.Bool
	var ops [2]*op
	for i := range ops {
		o := &op{}
		o.try = func() bool { locks[i].Lock(); defer locks[i].Unlock(); return met.Load() }
		o.complete = func() {
			locks[1-i].Lock()
			locks[1-i].Unlock() //nolint:staticcheck // an empty section shows that the lock is free
			p.CheckAndComplete(1 - i)
			p.CheckAndComplete(i)
		}
		ops[i] = o
		submit(t, p, o, hour, i)
	}
	met.Store(true)
	var wg sync.WaitGroup
	for i := range ops {
		wg.Go(func() { p.CheckAndComplete(i) })
	}
	wg.Wait()
	for _, o := range ops {
		ended(t, o, operation.Satisfied)
	}
}

func TestKAFKA2253NoOperationIsAddedToARemovedList(t *testing.T) {
	// A key's list becomes empty and is removed while another operation is added to it.
	p := open[int](t, purgatory.WithWatcherShards(1))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				var met atomic.Bool
				o := until(&met)
				_, err := p.TryCompleteElseWatch(o, hour, 1)
				assert.NoError(t, err)
				met.Store(true)
				p.CheckAndComplete(1)
				eventually(t, func() bool { return o.Outcome() == operation.Satisfied }, "found under its key")
			}
		})
	}
	wg.Wait()
	empty(t, p)
}

func TestKAFKA2160EmptyKeysAreRemoved(t *testing.T) {
	p := onManualClock[int](t)
	for i := range 20_000 {
		o := &op{}
		submit(t, p, o, time.Second, i, -i-1)
		switch i % 3 {
		case 0:
			p.ForceComplete(o)
		case 1:
			p.CancelForKey(i, nil)
		default:
			p.AdvanceClock(time.Second)
		}
	}
	p.AdvanceClock(time.Second)
	assert.Zero(t, p.NumKeys())
}

func TestKAFKA15380DeferredCompletionsRunOnEveryPath(t *testing.T) {
	// A chain of completions that is too long for one stack runs to its end without a
	// further call, whichever method has begun it.
	for name, begin := range map[string]func(p *intPurgatory, o *chained){
		"force":  func(p *intPurgatory, o *chained) { p.ForceComplete(o) },
		"cancel": func(p *intPurgatory, o *chained) { p.Cancel(o, nil) },
		"key":    func(p *intPurgatory, _ *chained) { p.CancelForKey(7, nil) },
		"expire": func(p *intPurgatory, _ *chained) { p.AdvanceClock(2 * hour) },
		"close":  func(p *intPurgatory, _ *chained) { assert.NoError(t, p.Close()) },
	} {
		p := onManualClock[int](t)
		c := &chain{p: p, length: 500, reached: -1, key: func(int) int { return 7 }}
		c.end = func(c *chain, o *chained) { c.p.ForceComplete(o) }
		first := &chained{chain: c}
		submit(t, p, first, hour, 7)
		if name == "close" {
			c.length = 0 // the purgatory accepts no operation any more
		}
		begin(p, first)
		answered(t, p, int64(c.length+1))
	}
}

func TestKAFKA19312ExpiryDoesNotOverlapACheck(t *testing.T) {
	p := onManualClock[string](t)
	o := newHeldOp()
	submit(t, p, o, time.Second, "a")
	proceed := o.holdInCheck(p, "a")
	p.AdvanceClock(hour)
	pending(t, &o.op) // it does not expire while TryComplete runs
	assert.Equal(t, 1, proceed(false))
	ended(t, &o.op, operation.Expired)
}

func TestKAFKA18027ACompletedOperationIsRefused(t *testing.T) {
	p := onManualClock[string](t)
	o := submitted(t, p, "a")
	p.ForceComplete(o)
	_, err := p.TryCompleteElseWatch(o, hour, "a")
	require.ErrorIs(t, err, purgatory.ErrUsed)
	ended(t, o, operation.Forced)
	empty(t, p)
}

func TestKAFKA17234APanicStopsNoOtherOperation(t *testing.T) {
	var told panics
	p := onManualClock[string](t, told.option())
	var met atomic.Bool
	bad := &op{}
	bad.try = func() bool {
		if met.Load() {
			panic("thrown")
		}
		return false
	}
	first, last := until(&met), until(&met)
	submit(t, p, first, hour, "a")
	submit(t, p, bad, hour, "a")
	submit(t, p, last, hour, "a")
	met.Store(true)
	assert.NotPanics(t, func() { assert.Equal(t, 2, p.CheckAndComplete("a")) })
	ended(t, first, operation.Satisfied)
	ended(t, last, operation.Satisfied)
	assert.EqualValues(t, 1, told.n.Load())
}

func TestTheReaperSurvivesPanickingOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told panics
		p, err := purgatory.New[string]("test", told.option())
		require.NoError(t, err)
		for range 20 {
			submit(t, p, &op{complete: func() { panic("thrown") }, expire: runtime.Goexit}, time.Second, "a")
			time.Sleep(time.Second)
		}
		last := &op{}
		submit(t, p, last, time.Second, "a")
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		ended(t, last, operation.Expired)
		assert.EqualValues(t, 20, told.n.Load())
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestKAFKA1616GaugesCountOperationsApartFromEntries(t *testing.T) {
	p := onManualClock[int](t)
	submitted(t, p, 1, 2, 3)
	s := p.Stats()
	assert.Equal(t, []int64{1, 3, 3}, []int64{s.Pending, s.Watched, s.Keys})
}

func TestKoP322ManyPurgatoriesShareOneTimer(t *testing.T) {
	// KoP had a purgatory for each connection and exhausted threads. With a shared timer and
	// without a reaper a purgatory has no goroutine.
	p := open[int](t)
	before := runtime.NumGoroutine()
	q := onManualClock[int](t)
	for i := range 100 {
		submitted(t, onManualClock[int](t), i)
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= before }, "no goroutine more") // the number of the runtime's own goroutines varies
	_, _ = p, q
}

func TestCompletionAndExpiryHaveOneWinner(t *testing.T) {
	// Kafka's published load test uses the timeout as the latency, so that every completion
	// races its expiry. Each operation must end once.
	p := open[int](t, purgatory.WithTick(10*time.Microsecond))
	outcomes := map[operation.Outcome]int{}
	for i := range 1500 {
		var met atomic.Bool
		o := until(&met)
		submitOrNot(t, p, o, 50*time.Microsecond, i%3)
		for start := time.Now(); time.Since(start) < 50*time.Microsecond; {
			runtime.Gosched()
		}
		met.Store(true)
		p.CheckAndComplete(i % 3)
		eventually(t, func() bool { return o.completed.Load() == 1 }, "one of the two")
		outcomes[o.Outcome()]++
	}
	assert.Equal(t, 1500, outcomes[operation.Satisfied]+outcomes[operation.Expired])
	eventually(t, func() bool { return p.Stats().Satisfied == int64(outcomes[operation.Satisfied]) }, "the counters agree")
}

func submitOrNot(t *testing.T, p *intPurgatory, o *op, timeout time.Duration, key int) {
	t.Helper()
	_, err := p.TryCompleteElseWatch(o, timeout, key)
	require.NoError(t, err)
}
