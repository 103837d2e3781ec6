package purgatory_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// Signals in crowds: of several keys, of keys without end, beside callbacks that block, and
// on workers that an executor ends.

func TestABlockedCallbackHoldsUpNoOtherKeyOfASignal(t *testing.T) {
	const keys = 100
	p := open[int](t, purgatory.WithSignalWorkers(2))
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
	endless := map[string]func(p *purgatory.DelayedOperationPurgatory[int]){
		"several keys": func(p *purgatory.DelayedOperationPurgatory[int]) { p.Signal(1, 2) },
		"all keys":     func(p *purgatory.DelayedOperationPurgatory[int]) { p.SignalAll() },
		"one key":      func(p *purgatory.DelayedOperationPurgatory[int]) { p.Signal(1) },
		"a check":      func(p *purgatory.DelayedOperationPurgatory[int]) { p.CheckAndComplete(1, 2) },
	}
	for name, signal := range endless {
		for _, shards := range []int{1, 64} {
			t.Run(fmt.Sprintf("%s/%d shards", name, shards), func(t *testing.T) {
				p := open[int](t, purgatory.WithSignalWorkers(1), purgatory.WithWatcherShards(shards))
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
	p := open[int](t, purgatory.WithSignalWorkers(1))
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
	p := open[int](t, purgatory.WithSignalWorkers(1))
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

// An executor ends the goroutine of the worker that asks for another one: what the worker
// has taken is done all the same.
func TestAnExecutorThatUnwindsAWorkerLosesNoSignal(t *testing.T) {
	for name, unwind := range map[string]func(){"goexit": runtime.Goexit, "panic": func() { panic("of the executor's") }} {
		for _, several := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/several keys %v", name, several), func(t *testing.T) {
				var calls atomic.Int64
				var told panics
				p := open[int](t, told.option(), purgatory.WithSignalWorkers(3), purgatory.WithWatcherShards(2), purgatory.WithReapInterval(time.Millisecond),
					purgatory.WithExecutor(func(run func()) error {
						if calls.Add(1)%2 == 0 {
							unwind()
						}
						go run()
						return nil
					}))
				for range 50 {
					var met atomic.Bool
					var all []*op
					var keys []int
					for key := range 10 {
						o := until(&met)
						submit(t, p, o, hour, key)
						all, keys = append(all, o), append(keys, key)
					}
					met.Store(true)
					inBackground(func() {
						if several {
							p.Signal(keys...)
							return
						}
						p.SignalAll()
					})()
					eventually(t, func() bool { return p.NumDelayed() == 0 }, "every signal is answered")
					for _, o := range all {
						eventually(t, func() bool { return o.completed.Load() == 1 }, "its callback has run")
					}
				}
			})
		}
	}
}

// The logger is told of a refusal by the worker that asked for another one. A panic there
// ends neither the worker nor the process.
func TestALoggerThatPanicsEndsNoWorker(t *testing.T) {
	var calls atomic.Int64
	var told panics
	p := open[int](t, told.option(), purgatory.WithLogger(slog.New(panicking{})), purgatory.WithSignalWorkers(2), purgatory.WithReapInterval(time.Millisecond),
		purgatory.WithExecutor(func(run func()) error {
			if calls.Add(1)%2 == 0 {
				return errors.New("full")
			}
			go run()
			return nil
		}))
	for range 20 {
		var met atomic.Bool
		for key := range 10 {
			submit(t, p, until(&met), hour, key)
		}
		met.Store(true)
		p.SignalAll()
		eventually(t, func() bool { return p.NumDelayed() == 0 }, "every signal is answered")
	}
	assert.Positive(t, told.n.Load())
}
