package purgatory_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Faults around the purgatory: clocks that stop, storms, executors that do nothing,
// callers with locks of their own.

func TestAClockThatStoodStillForAnHourCatchesUpInOneGo(t *testing.T) {
	const ops = 2000
	p := onManualClock[int](t)
	all := make([]*op, ops)
	for i := range all {
		all[i] = &op{}
		submit(t, p, all[i], time.Duration(i+1)*hour/ops, i%17)
	}
	later := submitted(t, p, 3)
	later.expire = func() { t.Error("expired early") }
	assert.True(t, p.Extend(later, hour+time.Millisecond))
	assert.True(t, p.AdvanceClock(hour))
	for i, o := range all {
		require.Equal(t, operation.Expired, o.Outcome(), i)
		ended(t, o, operation.Expired)
	}
	pending(t, later)
	assert.Equal(t, 1, p.NumDelayed())
	assert.True(t, p.ForceComplete(later))
	empty(t, p)
}

func TestWhatIsAddedAfterAStallIsOnTime(t *testing.T) {
	p := onManualClock[string](t)
	p.AdvanceClock(1000 * hour)
	o := &op{}
	submit(t, p, o, time.Second, "a")
	p.AdvanceClock(time.Second - 2*time.Millisecond)
	pending(t, o)
	p.AdvanceClock(2 * time.Millisecond)
	ended(t, o, operation.Expired)
}

func TestAStormOfExpiriesWhileOthersRegister(t *testing.T) {
	const ops, registering = 100_000, 4
	p := open[int](t)
	var expired, second atomic.Int64
	for i := range ops / 2 {
		submit(t, p, &op{expire: func() { expired.Add(1) }}, 50*time.Millisecond, i%1000)
	}
	var group sync.WaitGroup
	for g := range registering {
		group.Go(func() {
			for i := g; i < ops/2; i += registering {
				o := &op{complete: func() { second.Add(1) }}
				_, err := p.TryCompleteElseWatch(o, hour, i%1000, -1-i)
				assert.NoError(t, err)
				if i%3 == 0 {
					p.CancelForKey(-1-i, nil)
				}
			}
		})
	}
	group.Wait()
	eventually(t, func() bool { return expired.Load() == ops/2 }, "all of the first half expire")
	s := p.Stats()
	assert.EqualValues(t, ops/2, s.Expired)
	assert.EqualValues(t, ops, s.Accepted)
	assert.Equal(t, s.Cancelled, second.Load())
	require.NoError(t, p.Close())
	eventually(t, func() bool { return second.Load() == ops/2 }, "all of the second half are answered")
	empty(t, p)
}

func TestRegisteringDuringCloseFromHundredsOfGoroutines(t *testing.T) {
	const goroutines = 300
	for _, shards := range []int{1, 64} {
		p := open[int](t, purgatory.WithWatcherShards(shards))
		var accepted, refused, completed, wrong atomic.Int64
		var group sync.WaitGroup
		begin := make(chan struct{})
		for g := range goroutines {
			group.Go(func() {
				<-begin
				for i := 0; ; i++ {
					o := &op{complete: func() { completed.Add(1) }}
					switch _, err := p.TryCompleteElseWatch(o, hour, g, i%7); {
					case err == nil:
						accepted.Add(1)
					case errors.Is(err, purgatory.ErrClosed):
						refused.Add(1)
						if o.Outcome() != operation.Pending || o.completed.Load() != 0 {
							wrong.Add(1)
						}
						return
					default:
						wrong.Add(1)
						return
					}
				}
			})
		}
		close(begin)
		eventually(t, func() bool { return accepted.Load() > goroutines }, "they are at it")
		require.NoError(t, p.Close())
		group.Wait()
		require.NoError(t, p.Shutdown(t.Context()))
		assert.EqualValues(t, goroutines, refused.Load())
		assert.Equal(t, accepted.Load(), completed.Load(), "each that was accepted is answered")
		assert.Zero(t, wrong.Load())
		assert.Equal(t, accepted.Load(), p.Stats().Closed)
		empty(t, p)
	}
}

// A callback that does not need the caller's lock must not be held up by it, nor hold
// anybody up: KAFKA-2821, 6042, 7697, 18129, 20505.
func TestAUserLockHeldAcrossACheckBlocksNobodyElse(t *testing.T) {
	p := onManualClock[string](t)
	var mu sync.Mutex
	var met atomic.Bool
	first, second := until(&met), until(&met)
	inCallback, leave := make(chan struct{}), make(chan struct{})
	first.complete = func() { close(inCallback); <-leave }
	submit(t, p, first, hour, "a")
	wait := inBackground(func() {
		mu.Lock()
		defer mu.Unlock()
		met.Store(true)
		p.CheckAndComplete("a")
	})
	<-inCallback // mu is held, and a callback of a is under way
	assert.False(t, mu.TryLock())
	met.Store(false)
	submit(t, p, second, hour, "a", "b")
	met.Store(true)
	assert.Equal(t, 1, p.CheckAndComplete("a"), "another goroutine completes under the same key")
	ended(t, second, operation.Satisfied)
	last := submitted(t, p, "a")
	assert.True(t, p.ForceComplete(last))
	p.AdvanceClock(hour)
	close(leave)
	wait()
	ended(t, first, operation.Satisfied)
	empty(t, p)
}

func TestASignalUnderALockThatTheCallbackTakes(t *testing.T) {
	p := open[string](t, purgatory.WithoutReaper()) // which would look in its stead, later
	var mu sync.Mutex
	var met atomic.Bool
	o := until(&met)
	o.complete = func() { mu.Lock(); defer mu.Unlock() }
	submit(t, p, o, hour, "a")
	mu.Lock()
	met.Store(true)
	p.Signal("a") // CheckAndComplete would wait for ever
	for range 100 {
		runtime.Gosched()
	}
	mu.Unlock()
	eventually(t, func() bool { return o.completed.Load() == 1 && p.NumDelayed() == 0 }, "it completes")
}

func TestAnExecutorThatIsFullLosesNothing(t *testing.T) {
	full := errors.New("full")
	var places atomic.Int32
	var wg sync.WaitGroup
	p := open[int](t, purgatory.WithReapInterval(5*time.Millisecond), purgatory.WithExpiryWorkers(8),
		purgatory.WithExecutor(func(run func()) error {
			if places.Add(-1) < 0 {
				return full
			}
			wg.Go(run)
			return nil
		}))
	const ops = 500
	all := make([]*op, ops)
	var met atomic.Bool
	for i := range all {
		all[i] = until(&met)
		timeout := hour
		if i%2 == 0 {
			timeout = time.Millisecond
		}
		submit(t, p, all[i], timeout, i)
	}
	met.Store(true)
	for i := range all {
		p.Signal(i)
	}
	for range 3 { // what was refused is offered again and again, whether or not there is a place
		places.Store(1)
		runtime.Gosched()
	}
	eventually(t, func() bool { places.Store(2); return p.NumDelayed() == 0 }, "all of them end")
	require.NoError(t, p.Shutdown(t.Context()))
	wg.Wait()
	for _, o := range all {
		assert.EqualValues(t, 1, o.completed.Load())
	}
	empty(t, p)
}

func TestCloseWhileAnExpiryIsWishedForDuringARegistration(t *testing.T) {
	p := onManualClock[string](t)
	o := &op{}
	o.try = func() bool {
		switch o.tries.Load() {
		case 2:
			p.CheckAndComplete("a") // have it look again, when it is timed
		case 3:
			p.AdvanceClock(time.Second) // it is to expire
			assert.NoError(t, p.Close())
		}
		return false
	}
	_, err := p.TryCompleteElseWatch(o, time.Second, "a")
	require.NoError(t, err)
	assert.EqualValues(t, 1, o.completed.Load(), "nobody moves this clock any more")
	assert.NotEqual(t, operation.Pending, o.Outcome())
	empty(t, p)
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
