package purgatory_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestSignalUnderALockThatTheCallbacksNeed(t *testing.T) {
	p := open[string](t)
	var mu sync.Mutex
	met := false
	const ops = 500
	var done atomic.Int32
	for range ops {
		o := &op{}
		o.try = func() bool {
			if o.tries.Load() <= 2 {
				return false // registering: the test holds no lock
			}
			mu.Lock()
			defer mu.Unlock()
			return met
		}
		o.complete = func() {
			mu.Lock()
			defer mu.Unlock()
			p.Signal("b") // from a callback, and under the lock again
			done.Add(1)
		}
		submit(t, p, o, hour, "a", "b")
	}
	mu.Lock()
	met = true
	p.Signal("a")
	p.SignalUpTo("b", 3)
	mu.Unlock()
	eventually(t, func() bool { return done.Load() == ops }, "the workers run the check")
	empty(t, p)
}

func TestSignalsOfAKeyCoalesceUntilItsCheckBegins(t *testing.T) {
	// An executor that holds the worker back until the test lets it go.
	var held []func()
	var mu sync.Mutex
	p := onManualClock[string](t, purgatory.WithExecutor(func(run func()) error {
		mu.Lock()
		defer mu.Unlock()
		held = append(held, run)
		return nil
	}))
	run := func() {
		for {
			mu.Lock()
			if len(held) == 0 {
				mu.Unlock()
				return
			}
			next := held[0]
			held = held[1:]
			mu.Unlock()
			next()
		}
	}
	o := submitted(t, p, "a")
	atPosition(t, p, &op{}, "b", 100)
	tries := o.tries.Load()
	for i := range int64(1000) {
		p.Signal("a")
		p.SignalUpTo("b", i%60)
	}
	p.Signal("nobody waits for it")
	s := p.Stats()
	assert.EqualValues(t, 2001, s.Signals)
	assert.EqualValues(t, 1998, s.Coalesced)
	assert.Equal(t, tries, o.tries.Load(), "only marked")
	run()
	assert.Equal(t, tries+1, o.tries.Load(), "one check")
	assert.EqualValues(t, 1, p.Stats().Checks, "the position was not reached")
	p.SignalUpTo("b", 7)
	p.SignalUpTo("b", 100) // the highest counts
	p.SignalUpTo("b", 9)
	run()
	assert.EqualValues(t, 2, p.Stats().Checks)
	// What ends, or is forgotten, before its check begins is no trouble.
	p.Signal("a")
	assert.True(t, p.ForceComplete(o))
	again := submitted(t, p, "a")
	p.Signal("a")
	run()
	assert.EqualValues(t, 3, again.tries.Load())
	assert.Equal(t, 1, p.CancelForKey("a", nil))
}

func TestAKeySignalledDuringItsCheckIsCheckedAgain(t *testing.T) {
	p := open[string](t, purgatory.WithExpiryWorkers(1))
	var met atomic.Bool
	g := newGate()
	o := &op{}
	o.try = func() bool {
		seen := met.Load()
		if o.tries.Load() == 3 {
			g.pass()
		}
		return seen
	}
	submit(t, p, o, hour, "a")
	p.Signal("a")
	<-g.entered
	met.Store(true)
	p.Signal("a")
	close(g.leave)
	eventually(t, func() bool { return o.completed.Load() == 1 }, "the second check")
	ended(t, o, operation.Satisfied)
}

func TestNoSignalIsLost(t *testing.T) {
	p := open[int](t, purgatory.WithWatcherShards(4))
	var wg sync.WaitGroup
	const rounds, keys = 1500, 5
	for g := range 3 {
		wg.Go(func() {
			for i := range rounds {
				var met atomic.Bool
				o := until(&met)
				_, err := p.TryCompleteElseWatch(o, hour, (g+i)%keys, keys+g)
				assert.NoError(t, err)
				met.Store(true)
				p.Signal((g + i) % keys)
			}
		})
	}
	wg.Wait()
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "every one was checked after its signal")
	eventually(t, func() bool { return p.Keys() == 0 }, "whoever ended the last one is through with its other key")
	empty(t, p)
	assert.EqualValues(t, 3*rounds, conserved(t, p).Satisfied)
}

func TestSignalsAreDrainedByShutdown(t *testing.T) {
	p, err := purgatory.New[int]("test", purgatory.WithExpiryWorkers(1))
	require.NoError(t, err)
	var met atomic.Bool
	var done atomic.Int32
	for i := range 1000 {
		o := until(&met)
		o.complete = func() { done.Add(1) }
		submit(t, p, o, hour, i)
	}
	met.Store(true)
	for i := range 1000 {
		p.Signal(i)
	}
	require.NoError(t, p.Shutdown(expired(t)))
	assert.EqualValues(t, 1000, done.Load())
	assert.EqualValues(t, 1000, p.Stats().Satisfied)
}

func TestSignalAllocatesNothingInSteadyState(t *testing.T) {
	p := open[string](t)
	for range 10 {
		submitted(t, p, "a")
	}
	for range 100 {
		p.Signal("a")
	}
	// The workers' share is counted too: goroutines are recycled, checks are pooled.
	assert.Less(t, testing.AllocsPerRun(2000, func() { p.Signal("a"); time.Sleep(0) }), 1.0)
}
