package purgatory_test

import (
	"fmt"
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

func TestSignalsOfAKeyCoalesceUntilItsCheckBegins(t *testing.T) {
	p := onManualClock[string](t)
	held := purgatory.HoldWorkers(t, p)
	o := submitted(t, p, "a")
	atPosition(t, p, &op{}, "b", 100)
	tries := o.tries.Load()
	for i := range int64(1000) {
		p.Signal("a")
		p.SignalUpTo("b", i%60)
	}
	p.Signal("nobody waits for it")
	assert.GreaterOrEqual(t, p.Stats().Signals, int64(2000))
	assert.Equal(t, tries, o.tries.Load(), "only marked")
	held.Work()
	assert.Equal(t, tries+1, o.tries.Load(), "one check")
	assert.EqualValues(t, 1, p.Stats().Checks, "the position was not reached")
	p.SignalUpTo("b", 7)
	p.SignalUpTo("b", 100) // the check goes up to the highest position
	p.SignalUpTo("b", 9)
	held.Work()
	assert.EqualValues(t, 2, p.Stats().Checks)
	// The operation ends, and its key is forgotten, before the check of the key begins.
	p.Signal("a")
	assert.True(t, p.ForceComplete(o))
	again := submitted(t, p, "a")
	p.Signal("a")
	held.Work()
	assert.EqualValues(t, 3, again.tries.Load())
	assert.Equal(t, 1, p.CancelForKey("a", nil))
}

func TestAKeySignalledDuringItsCheckIsCheckedAgain(t *testing.T) {
	p := open[string](t, purgatory.WithWorkers(1))
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

func TestSignalsAreDrainedByShutdown(t *testing.T) {
	p, err := purgatory.New[int]("test", purgatory.WithWorkers(1))
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
	require.NoError(t, p.Shutdown(aWhile(t)))
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
	// The allocations of the workers count, too: the runtime reuses goroutines, and a pool
	// the checks.
	assert.Less(t, testing.AllocsPerRun(2000, func() { p.Signal("a"); time.Sleep(0) }), 1.0)
}

func TestASignalDuringALongCheckCausesAnother(t *testing.T) {
	const waiters = 300 // more than one batch
	p := open[string](t)
	var met atomic.Bool
	g := newGate()
	var held *op
	for i := range waiters {
		o := until(&met)
		if i == 200 { // in the second batch of three: the walk is not over
			held = o
			o.try = func() bool {
				seen := met.Load()
				if o.tries.Load() == 3 {
					g.pass()
				}
				return seen
			}
		}
		submit(t, p, o, hour, "a")
	}
	wait := inBackground(func() { p.CheckAndComplete("a") })
	<-g.entered
	met.Store(true)
	p.Signal("a")
	close(g.leave)
	wait()
	eventually(t, func() bool { return p.NumDelayed() == 0 && held.completed.Load() == 1 }, "those that the walk had passed are tried again")
	ended(t, held, operation.Satisfied)
}

func TestTheFirstSignalChecksUpToItsOwnPosition(t *testing.T) {
	p := open[string](t, purgatory.WithWatcherShards(1))
	for _, upTo := range []int64{-10, 10} {
		at := func(position int64) *op {
			o := &op{}
			o.try = func() bool { return position == upTo && o.tries.Load() > 2 }
			_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "a", Position: position})
			require.NoError(t, err)
			return o
		}
		beyond, reached := at(upTo+1), at(upTo)
		p.SignalUpTo("a", upTo)
		// The callbacks run when all operations of the batch have been tried.
		eventually(t, func() bool { return reached.completed.Load() == 1 }, "the check")
		assert.EqualValues(t, 2, beyond.tries.Load(), "it waits for a position further up")
		p.ForceComplete(beyond)
	}
}

// While a check of the key stands in its lists, the key stays in the map though nothing waits for it.
func TestHintIsFalseWhenOnlyACheckStandsInTheList(t *testing.T) {
	p := onManualClock[string](t)
	var met atomic.Bool
	in, out := make(chan struct{}), make(chan struct{})
	var waiting []*op
	for i := range 200 {
		o := &op{try: func() bool { return i < 128 && met.Load() }}
		if i == 0 {
			o.complete = func() { close(in); <-out }
		}
		_, err := p.TryCompleteElseWatch(o, time.Hour, "k")
		require.NoError(t, err)
		waiting = append(waiting, o)
	}
	met.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() { p.CheckAndComplete("k") })
	<-in
	for _, o := range waiting[128:] {
		assert.True(t, p.ForceComplete(o))
	}
	assert.False(t, p.SignalUpTo("k", purgatory.EveryPosition))
	close(out)
	wg.Wait()
}

// A worker whose callbacks block starts the next one before it runs them. On one processor the second
// signal starts none: the worker that is being started is to look for both.
func TestAWorkerThatBlocksHasStartedTheNext(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 20 {
		p := onManualClock[string](t, purgatory.WithWorkers(2))
		var met atomic.Bool
		checked := make(chan struct{})
		blocked, other := until(&met), until(&met)
		blocked.complete = func() { <-checked }
		other.complete = func() { close(checked) }
		submit(t, p, blocked, hour, "a")
		submit(t, p, other, hour, "b")
		met.Store(true)
		p.Signal("a")
		p.Signal("b")
		eventually(t, func() bool { return other.completed.Load() == 1 }, "the check of the other key")
		require.NoError(t, p.Shutdown(t.Context()))
	}
}

// Signals in crowds: of several keys, of keys without end, and beside callbacks that block.

func TestABlockedCallbackHoldsUpNoOtherKeyOfASignal(t *testing.T) {
	const keys = 100
	p := open[int](t, purgatory.WithWorkers(2))
	var met atomic.Bool
	leave := make(chan struct{})
	var all []*op
	var signalled []int
	for key := range keys {
		o := until(&met)
		if key == 0 {
			o.complete = func() { <-leave }
		}
		submit(t, p, o, hour, key)
		all, signalled = append(all, o), append(signalled, key)
	}
	met.Store(true)
	p.Signal(signalled...)
	eventually(t, func() bool {
		for _, o := range all {
			if o.completed.Load() == 0 {
				return false
			}
		}
		return true
	}, "the callbacks of the other keys run")
	close(leave)
}

// Signals of other keys, or of several keys, that never end keep no signal waiting.
func TestEndlessSignalsOfOthersStarveNoSignal(t *testing.T) {
	endless := map[string]func(p *purgatory.Purgatory[int]){
		"several keys": func(p *purgatory.Purgatory[int]) { p.Signal(1, 2) },
		"one key":      func(p *purgatory.Purgatory[int]) { p.Signal(1) },
		"a check":      func(p *purgatory.Purgatory[int]) { p.CheckAndComplete(1, 2) },
	}
	for name, signal := range endless {
		for _, shards := range []int{1, 64} {
			t.Run(fmt.Sprintf("%s/%d shards", name, shards), func(t *testing.T) {
				p := open[int](t, purgatory.WithWorkers(1), purgatory.WithWatcherShards(shards))
				var stop, met atomic.Bool
				busy := &op{}
				busy.try = func() bool {
					if busy.tries.Load() > 2 { // registered
						signal(p)
					}
					return stop.Load()
				}
				submit(t, p, busy, hour, 1, 2)
				p.Signal(1)
				eventually(t, func() bool { return busy.tries.Load() > 100 }, "it keeps the worker busy")
				for key := 3; key < 70; key++ {
					o := until(&met)
					submit(t, p, o, hour, key)
					met.Store(true)
					p.Signal(key)
					eventually(t, func() bool { return o.completed.Load() == 1 }, "the signal is answered")
					met.Store(false)
				}
				stop.Store(true)
				p.Signal(1)
				eventually(t, func() bool { return p.NumDelayed() == 0 }, "the busy one ends")
			})
		}
	}
}

// A chain of operations that end each other has no end. Its callbacks nest until the stack
// is deep, and are then handed to a worker, which they keep busy.
func TestAnEndlessChainStarvesNoSignal(t *testing.T) {
	p := open[int](t, purgatory.WithWorkers(1))
	var stop, met atomic.Bool
	var links atomic.Int64
	var next func()
	next = func() {
		links.Add(1)
		if stop.Load() {
			return
		}
		o := &op{complete: next}
		if _, err := p.TryCompleteElseWatch(o, hour, 1); err == nil {
			p.ForceComplete(o)
		}
	}
	next()
	eventually(t, func() bool { return links.Load() > 10_000 }, "the chain goes on")
	o := until(&met)
	submit(t, p, o, hour, 2)
	met.Store(true)
	p.Signal(2)
	eventually(t, func() bool { return o.completed.Load() == 1 }, "the signal is answered")
	stop.Store(true)
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "the chain ends")
}

// While every signal worker is blocked, keys that are signalled come and go. What is left
// of them does not grow with their number.
func TestTheQueueOfSignalsIsBoundedWhileCallbacksBlock(t *testing.T) {
	rounds := howMany(100_000, 30_000)
	p := open[int](t, purgatory.WithWorkers(1))
	leave := make(chan struct{})
	var met atomic.Bool
	blocked := until(&met)
	blocked.complete = func() { <-leave }
	submit(t, p, blocked, hour, -1)
	met.Store(true)
	p.Signal(-1)
	eventually(t, func() bool { return blocked.completed.Load() == 1 }, "the worker is blocked")
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for key := 0; key < 2*rounds; key += 2 {
		o := &op{}
		submit(t, p, o, hour, key, key+1)
		if key%4 == 0 {
			p.Signal(key, key+1)
		} else {
			p.Signal(key)
		}
		require.True(t, p.ForceComplete(o))
	}
	assert.Less(t, heap()-before, int64(rounds*80), "bytes; a keyList alone takes 128")
	close(leave)
	empty(t, p)
}

func wait(t *testing.T, p *purgatory.Purgatory[int], f *flagged, keys ...int) {
	t.Helper()
	completed, err := p.TryCompleteElseWatch(f, time.Hour, keys...)
	require.NoError(t, err)
	require.False(t, completed)
}

func TestHintReportsWhetherAnOperationWaits(t *testing.T) {
	p := open[int](t)
	var set atomic.Bool
	var done atomic.Int64
	assert.False(t, p.SignalUpTo(1, purgatory.EveryPosition))
	_, err := p.TryCompleteElseWatchAt(&flagged{flag: &set, done: func() { done.Add(1) }}, time.Hour, purgatory.KeyPosition[int]{Key: 1, Position: 10})
	require.NoError(t, err)
	set.Store(true)
	assert.True(t, p.SignalUpTo(1, 9), "somebody waits, though for more")
	assert.True(t, p.SignalUpTo(1, 10))
	eventually(t, func() bool { return done.Load() == 1 }, "done.Load() == 1")
	assert.GreaterOrEqual(t, p.Stats().Signals, int64(2))
	assert.Zero(t, testing.AllocsPerRun(100, func() { p.SignalUpTo(2, 5) }))
}
