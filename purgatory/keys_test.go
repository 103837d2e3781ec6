package purgatory_test

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestAnOperationUnderTheSameKeyTwiceEndsOnce(t *testing.T) {
	for name, end := range map[string]func(p *stringPurgatory, met *atomic.Bool) int{
		"check":  func(p *stringPurgatory, met *atomic.Bool) int { met.Store(true); return p.CheckAndComplete("a") },
		"cancel": func(p *stringPurgatory, _ *atomic.Bool) int { return p.CancelForKey("a", errGone) },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			var met atomic.Bool
			o := until(&met)
			submit(t, p, o, hour, "a", "a", "b", "a")
			assert.Equal(t, 1, end(p, &met))
			assert.EqualValues(t, 1, o.completed.Load())
			if name == "cancel" {
				assert.Equal(t, errGone, o.Cause())
			}
			empty(t, p)
		})
	}
}

func TestANaNKeyExpiresAndLeavesItsLists(t *testing.T) {
	p := onManualClock[float64](t)
	nan := math.NaN()
	var met atomic.Bool
	expiring, checked, cancelled := &op{}, until(&met), &op{}
	submit(t, p, expiring, time.Second, nan)
	submit(t, p, checked, hour, nan, 1, nan, nan, nan, nan)
	submit(t, p, cancelled, hour, nan)
	assert.Equal(t, []int{3, 8, 8}, []int{p.NumDelayed(), p.Watched(), p.NumKeys()})
	assert.Zero(t, p.CheckAndComplete(nan))
	assert.Zero(t, p.CancelForKey(nan, errGone))
	p.AdvanceClock(time.Second)
	ended(t, expiring, operation.Expired)
	met.Store(true)
	assert.Equal(t, 1, p.CheckAndComplete(1), "found under the key that can be found")
	assert.True(t, p.Cancel(cancelled, errGone))
	empty(t, p)
}

func TestAnUnhashableKeyPanicsAndLosesNothing(t *testing.T) {
	p := onManualClock[any](t, purgatory.WithMaxPending(1))
	o, bad := &op{}, []int{1}
	assert.Panics(t, func() { _, _ = p.TryCompleteElseWatch(o, hour, "a", bad) })
	assert.Panics(t, func() { _, _ = p.TryCompleteElseWatch(o, hour, 1, 2, 3, 4, 5, bad) })
	assert.Panics(t, func() { p.CheckAndComplete(bad) })
	assert.Panics(t, func() { p.Signal(bad) })
	assert.Panics(t, func() { p.CancelForKey(bad, nil) })
	empty(t, p)
	submit[any](t, p, o, hour, "a", 7, struct{ x int }{1}) // it is unused, and counts against no maximum
	assert.Equal(t, 1, p.CancelForKey(struct{ x int }{1}, nil))
}

func TestAnOperationMayWaitForMaxKeysKeys(t *testing.T) {
	p := onManualClock[int](t)
	keys := make([]int, operation.MaxKeys)
	for i := range keys {
		keys[i] = i
	}
	var met atomic.Bool
	o := until(&met)
	submit(t, p, o, hour, keys...)
	assert.Equal(t, operation.MaxKeys, p.Watched())
	met.Store(true)
	assert.Equal(t, 1, p.CheckAndComplete(operation.MaxKeys-1))
	empty(t, p)
}

// CheckAndCompleteAll and SignalAll promise a try of every operation that waits. An operation that waits
// for a NaN is found by the hash of that NaN only.
func TestCheckAndCompleteAllReachesEveryNaN(t *testing.T) {
	for name, opts := range map[string][]purgatory.Option{
		"one shard": {purgatory.WithWatcherShards(1)},
		"key stats": {purgatory.WithKeyStats(10)},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[float64](t, opts...)
			var met atomic.Bool
			const n = 2000
			for range n {
				submit(t, p, until(&met), hour, math.NaN())
			}
			met.Store(true)
			assert.Equal(t, n, p.CheckAndCompleteAll())
			assert.Zero(t, p.NumDelayed(), "pending with its condition met")

			met.Store(false)
			for range n {
				submit(t, p, until(&met), hour, math.NaN())
			}
			met.Store(true)
			p.SignalAll()
			eventually(t, func() bool { return p.NumDelayed() == 0 }, "workers try them")
		})
	}
}

// A walk over operations of several keys counts no tries under a key of its own.
func TestTriesUnderANaNCountUnderNoOtherKey(t *testing.T) {
	p := onManualClock[float64](t, purgatory.WithKeyStats(10))
	var never atomic.Bool
	submit(t, p, until(&never), hour, math.NaN())
	assert.Zero(t, p.CheckAndCompleteAll())
	s := p.Stats()
	assert.Equal(t, []int64{1, 1}, []int64{s.Checks, s.WastedChecks})
	for _, key := range p.Inspect(10, 0).Hot {
		assert.Equal(t, "NaN", key.Key)
	}
}
