package purgatory_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// Signals in crowds: of several keys, of keys without end, and beside callbacks that block.

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
