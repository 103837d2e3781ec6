package purgatory_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/purgatory"
)

// Tests of crowds, of deep stacks and of checks inside a TryComplete. Those named
// TestDefect… find a defect of proof/seeded.

// crowd blocks n callbacks of operations on different keys of one shard, and returns a
// function that releases them.
func crowd(t *testing.T, p *intPurgatory, n int) (disperse func()) {
	t.Helper()
	release := make(chan struct{})
	var inside atomic.Int32
	var waits []func()
	for i := range n {
		o := &op{complete: func() { inside.Add(1); <-release }}
		submit(t, p, o, hour, 1000+i)
		waits = append(waits, inBackground(func() { p.ForceComplete(o) }))
	}
	eventually(t, func() bool { return inside.Load() == int32(n) }, "every callback runs where its operation has ended")
	return func() {
		close(release)
		for _, wait := range waits {
			wait()
		}
	}
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

// deepestOf runs a chain of operations on different keys, each of which ends the next, and
// returns the depth of the deepest stack.
func deepestOf(t *testing.T, p *intPurgatory, length int, link func(i int, next func()) *op, end func(o *op, i int)) int {
	t.Helper()
	var deep, reached atomic.Int64
	var ops []*op
	next := func(i int) {
		if i%101 == 0 {
			deep.Store(max(deep.Load(), int64(depth())))
		}
		reached.Store(int64(i))
		if i < length {
			end(ops[i], i)
		}
	}
	for i := range length {
		ops = append(ops, link(i, func() { next(i + 1) }))
		submit(t, p, ops[i], hour, i)
	}
	next(0)
	eventually(t, func() bool { return reached.Load() == int64(length) && p.NumDelayed() == 0 }, "the last one")
	return int(deep.Load())
}

func TestAChainOverManyShardsKeepsTheStackSmall(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithWatcherShards(1<<13))
	deep := deepestOf(t, p, 5000, func(_ int, next func()) *op { return &op{complete: next} },
		func(o *op, _ int) { p.ForceComplete(o) })
	assert.Less(t, deep, 12_000, "frames")
}

func TestAChainThroughTryCompleteKeepsTheStackSmall(t *testing.T) {
	for _, shards := range []int{1, 1 << 13} {
		p := onManualClock[int](t, purgatory.WithWatcherShards(shards))
		ready := make([]atomic.Bool, 5001)
		deep := deepestOf(t, p, 5000, func(i int, next func()) *op {
			return &op{try: func() bool {
				if !ready[i].Load() {
					return false
				}
				next()
				return true
			}}
		}, func(_ *op, i int) { ready[i].Store(true); p.CheckAndComplete(i) })
		assert.Less(t, deep, 12_000, "frames, with %d shards", shards)
	}
}

func TestNestedChecksOfEachWaiterAreBounded(t *testing.T) {
	const waiters = 7
	p := open[string](t)
	var tries atomic.Int64
	var checks atomic.Bool
	var met atomic.Bool
	for range waiters {
		var nested atomic.Int32
		submit(t, p, &op{try: func() bool {
			tries.Add(1)
			if checks.Load() && nested.Add(1) <= 20 {
				p.CheckAndComplete("a")
			}
			return met.Load()
		}}, hour, "a")
	}
	tries.Store(0)
	checks.Store(true)
	p.CheckAndComplete("a")
	assert.LessOrEqual(t, tries.Load(), int64(20*20*waiters), "each of 20 nested checks of each waiter tries each waiter once, on a worker")
	met.Store(true)
	p.Signal("a")
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "no wake-up is lost")
}

func TestANestedCheckIsLeftToAWorker(t *testing.T) {
	p := open[string](t, purgatory.WithWatcherShards(1))
	for range 2 { // after the first nested check every check calls nested
		var met atomic.Bool
		waits, wakes := until(&met), &op{}
		submit(t, p, waits, hour, "b")
		wakes.try = func() bool {
			if wakes.tries.Load() == 3 {
				met.Store(true)
				assert.Zero(t, p.CheckAndComplete("b"))
			}
			return wakes.tries.Load() >= 3
		}
		submit(t, p, wakes, hour, "a")
		assert.Equal(t, 1, p.CheckAndComplete("a"))
		eventually(t, func() bool { return waits.completed.Load() == 1 }, "the nested check")
	}
}

// CheckAndCompleteAll inside a TryComplete is left to workers, which check every key.
func TestANestedCheckOfAllKeysIsLeftToWorkers(t *testing.T) {
	p := open[string](t, purgatory.WithWatcherShards(1))
	for range 2 { // after the first nested check every check calls nested
		var met atomic.Bool
		waits, wakes := until(&met), &op{}
		submit(t, p, waits, hour, "b")
		wakes.try = func() bool {
			if wakes.tries.Load() == 3 {
				met.Store(true)
				assert.Zero(t, p.CheckAndCompleteAll())
			}
			return wakes.tries.Load() >= 3
		}
		submit(t, p, wakes, hour, "a")
		assert.Equal(t, 1, p.CheckAndComplete("a"))
		eventually(t, func() bool { return waits.completed.Load() == 1 }, "the nested check")
	}
}

// Each TryComplete registers the next operation. One registration in some hundred looks at its stack,
// so the stack may hold thousands of them, and not all.
func TestAChainOfRegistrationsInTryCompleteKeepsTheStackSmall(t *testing.T) {
	length := howMany(50_000, 20_000)
	p := open[int](t)
	for range 2 {
		var deep, completed atomic.Int64
		var register func(i int)
		register = func(i int) {
			if i == length {
				return
			}
			o := &op{complete: func() { completed.Add(1) }}
			o.try = func() bool {
				if o.tries.Load() == 1 {
					if i%100 == 0 {
						deep.Store(max(deep.Load(), int64(depth())))
					}
					register(i + 1)
				}
				return true
			}
			_, err := p.TryCompleteElseWatch(o, hour, i)
			assert.NoError(t, err)
		}
		register(0)
		eventually(t, func() bool { return completed.Load() == int64(length) }, "every operation completes")
		assert.Less(t, deep.Load(), int64(40_000), "frames")
	}
}
