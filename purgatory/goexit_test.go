package purgatory_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestAGoexitInEveryCallbackKeepsTheStackSmall(t *testing.T) {
	ops := 20_000
	if purgatory.RaceDetector {
		ops = 5000
	}
	for name, end := range map[string]func(p *intPurgatory){
		"check":  func(p *intPurgatory) { p.CheckAndComplete(1) },
		"cancel": func(p *intPurgatory) { p.CancelForKey(1, nil) },
		"close":  func(p *intPurgatory) { _ = p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p := open[int](t)
			var met atomic.Bool
			var seen deepest
			all := make([]*op, ops)
			for i := range all {
				all[i] = until(&met)
				all[i].complete = func() {
					if i%97 == 0 {
						seen.look()
					}
					runtime.Goexit()
				}
				submit(t, p, all[i], hour, 1)
			}
			met.Store(true)
			inBackground(func() { end(p) })()
			require.NoError(t, p.Shutdown(t.Context()))
			for _, o := range all {
				require.EqualValues(t, 1, o.completed.Load())
			}
			assert.Less(t, seen.frames.Load(), int64(8000))
		})
	}
}

// However many tries call runtime.Goexit, the operations behind them are tried.
func TestGoexitInTriesLeavesNoOperationUntried(t *testing.T) {
	p := open[int](t)
	var met atomic.Bool
	for range 2500 {
		submit(t, p, &op{try: func() bool {
			if met.Load() {
				runtime.Goexit()
			}
			return false
		}}, hour, 1)
	}
	last := until(&met)
	submit(t, p, last, hour, 1)
	met.Store(true)
	inBackground(func() { p.CheckAndComplete(1) })()
	eventually(t, func() bool { return last.completed.Load() == 1 }, "the last in line is tried")
	met.Store(false)
	assert.Equal(t, 2500, p.NumDelayed())
}

// A callback that calls runtime.Goexit does not keep the other keys from being checked.
func TestAGoexitLeavesNoOtherKeyUnchecked(t *testing.T) {
	for name, check := range map[string]func(p *intPurgatory, keys []int){
		"keys": func(p *intPurgatory, keys []int) { p.CheckAndComplete(keys...) },
		"all":  func(p *intPurgatory, _ []int) { p.CheckAndCompleteAll() },
	} {
		p := open[int](t)
		var met atomic.Bool
		keys := make([]int, 100)
		for i := range keys {
			keys[i] = i
			o := until(&met)
			if i%7 == 0 {
				o.complete = runtime.Goexit
			}
			submit(t, p, o, hour, i)
		}
		met.Store(true)
		inBackground(func() { check(p, keys) })()
		eventually(t, func() bool { return p.NumDelayed() == 0 }, name)
	}
}

// described is an operation whose String method a test supplies.
type described struct {
	op
	say func() string
}

func (d *described) String() string { return d.say() }

func TestGoexitDuringInspectLeavesTheOperationPending(t *testing.T) {
	for _, where := range []string{"String", "TryComplete"} {
		t.Run(where, func(t *testing.T) {
			p := onManualClock[string](t)
			o := &described{}
			leave := false
			o.say = func() string {
				if where == "String" {
					runtime.Goexit()
				}
				leave = true
				p.CheckAndComplete("a") // a mark: another try follows
				return "described"
			}
			o.try = func() bool {
				if leave {
					leave = false
					runtime.Goexit()
				}
				return false
			}
			submit(t, p, o, hour, "a")
			inBackground(func() { p.Inspect(1, 1) })()
			assert.True(t, p.ForceComplete(o), "nobody holds it any more")
			ended(t, &o.op, operation.Forced)
			empty(t, p)
		})
	}
}

func TestManyGoexitsInOneWalkKeepTheStackSmall(t *testing.T) {
	const n = 20_000
	p := onManualClock[string](t)
	var deep, completed atomic.Int64
	for range n {
		submit(t, p, &op{complete: func() {
			if completed.Add(1)%997 == 0 {
				deep.Store(max(deep.Load(), int64(depth())))
			}
			runtime.Goexit()
		}}, hour, "a")
	}
	inBackground(func() { p.CancelForKey("a", errGone) })()
	eventually(t, func() bool { return completed.Load() == n }, "here, or by workers")
	assert.Less(t, deep.Load(), int64(10_000), "frames")
}
