package purgatory_test

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// The operation that a goroutine holds when user code ends it by runtime.Goexit is let go of.
func TestGoexitLeavesNoOperationHeld(t *testing.T) {
	for name, leave := range map[string]func(p *purgatory.DelayedOperationPurgatory[string], op *probe){
		"try": func(p *purgatory.DelayedOperationPurgatory[string], op *probe) {
			op.while = runtime.Goexit
			p.CheckAndComplete("a")
		},
		"String": func(p *purgatory.DelayedOperationPurgatory[string], op *probe) {
			op.while = runtime.Goexit
			p.Inspect(0, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			op := probed(t, p, time.Hour, "a")
			inBackground(func() { leave(p, op) })()
			op.while = nil
			p.ForceComplete(op) // the goroutine that goes on may be about to let go of it
			eventually(t, p.Idle, "every operation is answered")
			assert.Equal(t, operation.Forced, op.Outcome())
		})
	}
}

// Marks that were left to a goroutine which runtime.Goexit ends are not lost.
func TestGoexitLosesNoMarkLeftToTheHolder(t *testing.T) {
	gone := errors.New("gone")
	for name, of := range map[string]func(p *purgatory.DelayedOperationPurgatory[string], op *probe){
		"CheckAndComplete": func(p *purgatory.DelayedOperationPurgatory[string], _ *probe) { p.CheckAndComplete("a") },
		"Inspect":          func(p *purgatory.DelayedOperationPurgatory[string], _ *probe) { p.Inspect(0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			op := probed(t, p, time.Hour, "a", "b")
			op.while = func() {
				op.while = nil
				inBackground(func() { assert.False(t, p.Cancel(op, gone), "left to the holder") })()
				runtime.Goexit()
			}
			inBackground(func() { of(p, op) })()
			require.Eventually(t, p.Idle, deadline, time.Millisecond)
			assert.Equal(t, operation.Cancelled, op.Outcome())
			assert.Equal(t, gone, op.Cause())
			assert.Zero(t, p.Wishes())
			assert.Zero(t, p.Watched())

			op = probed(t, p, time.Hour, "a")
			op.while = func() {
				op.while, op.ready = nil, true
				inBackground(func() { assert.Zero(t, p.CheckAndComplete("a"), "left to the holder") })()
				runtime.Goexit()
			}
			inBackground(func() { of(p, op) })()
			require.Eventually(t, func() bool { return op.Outcome() == operation.Satisfied }, deadline, time.Millisecond)
		})
	}
}

// leaver is an operation whose callbacks call runtime.Goexit.
type leaver struct {
	operation.DelayedOperation
	ready              bool
	completed, expired atomic.Int32
	stay               bool // OnComplete returns; only OnExpiration calls Goexit
	deep               bool // OnComplete ran on a stack of over 5,000 frames
}

func (l *leaver) TryComplete() bool { return l.ready }
func (l *leaver) OnExpiration()     { l.expired.Add(1); runtime.Goexit() }

func (l *leaver) OnComplete() {
	l.deep = runtime.Callers(5000, make([]uintptr, 1)) > 0
	l.completed.Add(1)
	if !l.stay {
		runtime.Goexit()
	}
}

// All callbacks of all operations run although callbacks call runtime.Goexit: within a
// batch, between two batches, and when the stack is so deep that workers go on.
func TestGoexitInACallbackSkipsNoOtherCallback(t *testing.T) {
	for _, n := range []int{1, 2, 2*purgatory.BatchSize + 1, 900} {
		for name, end := range map[string]func(p *purgatory.DelayedOperationPurgatory[string], ops []*leaver){
			"CheckAndComplete": func(p *purgatory.DelayedOperationPurgatory[string], ops []*leaver) {
				for _, op := range ops {
					op.ready = true
				}
				p.CheckAndComplete("a")
			},
			"CancelForKey": func(p *purgatory.DelayedOperationPurgatory[string], _ []*leaver) { p.CancelForKey("a", nil) },
			"Close":        func(p *purgatory.DelayedOperationPurgatory[string], _ []*leaver) { p.Close() },
		} {
			p := onManualClock[string](t)
			var ops []*leaver
			for range n {
				op := &leaver{}
				_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
				require.NoError(t, err)
				ops = append(ops, op)
			}
			inBackground(func() { end(p, ops) })()
			require.Eventually(t, p.Idle, deadline, time.Millisecond, "%s of %d", name, n)
			for _, op := range ops {
				assert.EqualValues(t, 1, op.completed.Load())
				assert.Zero(t, op.expired.Load())
				assert.False(t, op.deep, "its stack is bounded")
			}
			assert.Zero(t, p.NumDelayed())
		}
	}
}

// OnExpiration runs after an OnComplete that called runtime.Goexit, on the same goroutine or
// on a worker.
func TestOnExpirationRunsAfterGoexitInOnComplete(t *testing.T) {
	for _, stay := range []bool{false, true} {
		for _, frames := range []int{0, machine.DeepStack, 5000} {
			p := onManualClock[string](t)
			op := &leaver{stay: stay}
			_, err := p.TryCompleteElseWatch(op, time.Second, "a")
			require.NoError(t, err)
			inBackground(func() { nest(frames, func() { p.AdvanceClock(time.Minute) }) })()
			require.Eventually(t, p.Idle, deadline, time.Millisecond)
			assert.EqualValues(t, 1, op.completed.Load())
			assert.EqualValues(t, 1, op.expired.Load(), "%d frames", frames)
			assert.Equal(t, operation.Expired, op.Outcome())
		}
	}
}

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
			assert.Less(t, seen.frames.Load(), int64(100))
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
			eventually(t, func() bool { return where == "String" || o.tries.Load() == 3 }, "the try that was asked for")
			pending(t, &o.op)
			p.ForceComplete(o) // or a wish, as long as the goroutine whose try has not returned holds it
			assert.True(t, inTime(func() bool { return o.completed.Load() == 1 }), "nobody holds it for good")
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
	assert.Less(t, deep.Load(), int64(100), "frames")
}

// leave ends the goroutine, and panics on the way, as FailNow of a test does whose cleanup
// panics. A recovered panic does not stop the Goexit.
func leave() {
	defer func() { panic("on the way") }()
	runtime.Goexit()
}

func TestAPanicDuringAGoexitInACallbackStopsNoOther(t *testing.T) {
	var told panics
	p := open[string](t, told.option())
	var all [3]*op
	met := false
	for i := range all {
		all[i] = &op{try: func() bool { return met }}
		if i == 0 {
			all[i].complete = leave
		}
		submit(t, p, all[i], hour, "a")
	}
	met = true
	inBackground(func() { p.CheckAndComplete("a") })()
	for _, o := range all {
		endsSoon(t, o, operation.Satisfied)
	}
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestAPanicDuringAGoexitInACheckLosesNothing(t *testing.T) {
	var told panics
	p := open[string](t, told.option())
	var leaves, met atomic.Bool
	all := [3]*op{}
	for i := range all {
		all[i] = &op{try: func() bool {
			if i == 1 && leaves.Swap(false) {
				leave()
			}
			return met.Load() && i != 1
		}}
		submit(t, p, all[i], hour, "a")
	}
	other := &op{}
	submit(t, p, other, hour, "other")
	met.Store(true)
	leaves.Store(true)
	inBackground(func() { p.CheckAndComplete("a") })()
	endsSoon(t, all[0], operation.Satisfied)
	endsSoon(t, all[2], operation.Satisfied)
	for range 10 { // what that check has used is as new
		assert.Zero(t, p.CheckAndComplete("other"))
	}
	assert.True(t, p.ForceComplete(all[1]), "nobody holds it")
	assert.True(t, p.ForceComplete(other))
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestAPanicDuringAGoexitInARegistrationLosesNothing(t *testing.T) {
	for _, at := range []int32{1, 2} {
		var told panics
		p := open[string](t, told.option(), purgatory.WithMaxPending(1))
		o := &op{}
		o.try = func() bool {
			if o.tries.Load() == at {
				leave()
			}
			return false
		}
		inBackground(func() { _, _ = p.TryCompleteElseWatch(o, hour, "a") })()
		assert.Equal(t, 1, p.NumDelayed(), "it waits, after try %d", at)
		assert.True(t, p.ForceComplete(o))
		ended(t, o, operation.Forced)
		submit(t, p, &op{}, hour, "a")
		require.NoError(t, p.Close())
	}
}

// A chain each of whose links runs on because the one before it has called runtime.Goexit
// neither grows a stack nor keeps a goroutine for each link.
func TestAChainThroughGoexitsKeepsFewGoroutines(t *testing.T) {
	const n = 20_000
	p := open[int](t)
	var met atomic.Bool
	var completed, goroutines atomic.Int64
	for i := range n {
		leaver, link := until(&met), until(&met)
		leaver.complete = runtime.Goexit
		link.complete = func() {
			if completed.Add(1)%97 == 0 {
				goroutines.Store(max(goroutines.Load(), int64(runtime.NumGoroutine())))
			}
			p.CheckAndComplete(i + 1)
		}
		submit(t, p, leaver, hour, i)
		submit(t, p, link, hour, i)
	}
	before := runtime.NumGoroutine()
	met.Store(true)
	inBackground(func() { p.CheckAndComplete(0) })()
	eventually(t, func() bool { return completed.Load() == n }, "here, or by workers")
	assert.Less(t, goroutines.Load(), int64(before+n/10))
}

// What goes on after a runtime.Goexit runs the callbacks of what it ends, as any goroutine whose
// stack is small does. So a callback may wait for those of another operation that it has ended,
// even if no signal worker is free.
func TestACallbackAfterAGoexitRunsTheCallbacksOfWhatItEnds(t *testing.T) {
	p := open[int](t, purgatory.WithWatcherShards(1), purgatory.WithSignalWorkers(1))
	var met atomic.Bool
	leaver, ender, other := until(&met), until(&met), &op{}
	done := make(chan struct{})
	leaver.complete = runtime.Goexit
	other.complete = func() { close(done) }
	var forced, inline atomic.Bool
	giveUp := make(chan struct{})
	ender.complete = func() {
		forced.Store(p.ForceComplete(other))
		inline.Store(other.completed.Load() == 1)
		select {
		case <-done:
		case <-giveUp:
		}
	}
	submit(t, p, other, hour, 2)
	submit(t, p, leaver, hour, 1)
	submit(t, p, ender, hour, 1)
	met.Store(true)
	p.Signal(1)
	answered := inTime(func() bool { return other.completed.Load() == 1 })
	assert.True(t, answered, "the only signal worker waits for the goroutine that goes on, and that for the signal worker")
	close(giveUp)
	require.NoError(t, p.Shutdown(t.Context()))
	assert.True(t, forced.Load())
	assert.True(t, inline.Load(), "ForceComplete returns when the callbacks have returned")
}

// On a manual clock the callbacks of what has expired have run when AdvanceClock ends, also after
// a runtime.Goexit in one of them, and beside a blocked callback.
func TestAGoexitInAdvanceClockLeavesNoCallbackToAWorker(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithWatcherShards(1), purgatory.WithSignalWorkers(1))
	release, inside := make(chan struct{}), make(chan struct{})
	var met atomic.Bool
	blocked := until(&met)
	blocked.complete = func() { close(inside); <-release }
	submit(t, p, blocked, hour, 1)
	met.Store(true)
	p.Signal(1) // its callback blocks the signal worker
	<-inside
	leaver, second := &op{complete: runtime.Goexit}, &op{}
	submit(t, p, leaver, time.Second, 2)
	submit(t, p, second, 2*time.Second, 2)
	inBackground(func() { p.AdvanceClock(3 * time.Second) })()
	endsSoon(t, leaver, operation.Expired)
	endsSoon(t, second, operation.Expired)
	close(release)
	require.NoError(t, p.Shutdown(t.Context()))
}

// After a panic in the first try of a registration the second one may end the goroutine, by itself or in the
// panic handler: the operation waits as if both had said no, and each panic is reported.
func TestAGoexitAfterAPanicInARegistrationLeavesTheOperationPending(t *testing.T) {
	for name, second := range map[string]func(){
		"in the try":     runtime.Goexit,
		"in the handler": func() { panic("second") },
	} {
		t.Run(name, func(t *testing.T) {
			var reported []any
			p := onManualClock[int](t, purgatory.WithPanicHandler(func(v any, _ []byte) {
				reported = append(reported, v)
				if v == "second" {
					runtime.Goexit()
				}
			}))
			var o *op
			o = &op{try: func() bool {
				switch o.tries.Load() {
				case 1:
					panic("first")
				case 2:
					second()
				}
				return true
			}}
			inBackground(func() { _, _ = p.TryCompleteElseWatch(o, hour, 1) })()
			assert.Equal(t, map[string][]any{"in the try": {"first"}, "in the handler": {"second", "first"}}[name], reported)
			pending(t, o)
			assert.Equal(t, 1, p.CheckAndComplete(1))
			ended(t, o, operation.Satisfied)
		})
	}
}

// User code that unwinds the stack, by a panic or runtime.Goexit, at places other than a
// callback: the logger, the first try of a registration.

func TestAGoexitInTheFirstTryLosesNoWakeUp(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("of the try's") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var told panics
			p := open[string](t, told.option())
			var met atomic.Bool
			g := newGate()
			o := &op{}
			o.try = func() bool {
				seen := met.Load()
				if o.tries.Load() == 1 {
					g.pass()
					end()
				}
				return seen
			}
			wait := inBackground(func() { _, _ = p.TryCompleteElseWatch(o, hour, "a") })
			<-g.entered
			met.Store(true)
			p.CheckAndComplete("a")
			close(g.leave)
			wait()
			eventually(t, func() bool { return o.completed.Load() == 1 }, "it is tried with the change visible")
		})
	}
}

// A registration whose first try calls runtime.Goexit, and that is refused, leaves nothing: the operation may be submitted elsewhere.
func TestAGoexitBeforeARefusalLeavesNothing(t *testing.T) {
	full, other := onManualClock[string](t, purgatory.WithMaxPending(1)), onManualClock[string](t)
	submitted(t, full, "a")
	o := &op{}
	o.try = func() bool {
		if o.tries.Load() == 1 {
			full.Signal("b") // asks for another try
			runtime.Goexit()
		}
		return false
	}
	inBackground(func() { _, _ = full.TryCompleteElseWatch(o, hour, "b") })()
	assert.Equal(t, []int{1, 1, 1}, []int{full.NumDelayed(), full.Watched(), full.NumKeys()})
	submit(t, other, o, time.Second, "c")
	other.AdvanceClock(time.Second)
	ended(t, o, operation.Expired)
}

// A try of a registration asks for the end of its operation and calls runtime.Goexit: the operation ends, and a worker
// runs its callback, since the goroutine that registers is ending.
func TestAnEndThatARegistrationWasAskedForOutlivesItsGoexit(t *testing.T) {
	for _, in := range []int32{1, 2} {
		p := onManualClock[string](t)
		var stack []byte
		o := &op{complete: func() { stack = debug.Stack() }}
		o.try = func() bool {
			if o.tries.Load() == in {
				assert.False(t, p.ForceComplete(o), "left to the holder")
				runtime.Goexit()
			}
			return false
		}
		inBackground(func() { _, _ = p.TryCompleteElseWatch(o, hour, "a") })()
		endsSoon(t, o, operation.Forced)
		eventually(t, p.Idle, "the callback has returned")
		assert.NotContains(t, string(stack), "TryCompleteElseWatch")
		empty(t, p)
	}
}

// A callback that ends the goroutine of AdvanceClock leaves the manual clock usable.
func TestAGoexitInAdvanceClockStopsNoClock(t *testing.T) {
	p := onManualClock[string](t)
	first := &op{expire: runtime.Goexit}
	second := &op{complete: runtime.Goexit}
	third := &op{}
	submit(t, p, first, time.Second, "a")
	submit(t, p, second, time.Second, "a")
	submit(t, p, third, 2*time.Second, "a")
	inBackground(func() { p.AdvanceClock(time.Second) })()
	for range 5 {
		inBackground(func() { p.AdvanceClock(time.Second) })()
	}
	endsSoon(t, first, operation.Expired)
	endsSoon(t, second, operation.Expired)
	endsSoon(t, third, operation.Expired)
}

// With WithCallbacksOnWorkers, callbacks stay with the workers when another goroutine goes on with a check.
func TestAfterAGoexitTheCallbacksAreStillLeftToWorkers(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithCallbacksOnWorkers(), purgatory.WithPanicHandler(func(any, []byte) { runtime.Goexit() }))
	held := purgatory.HoldWorkers(t, p)
	var met atomic.Bool
	panics := &op{try: func() bool {
		if met.Load() {
			panic("in a check")
		}
		return false
	}}
	submit(t, p, panics, time.Hour, "a")
	ends := until(&met)
	submit(t, p, ends, time.Hour, "a")
	met.Store(true)
	inBackground(func() { p.CheckAndComplete("a") })()
	eventually(t, func() bool { return p.Stats().Running == 0 }, "another goroutine has gone on with the check")
	assert.Equal(t, operation.Satisfied, ends.Outcome())
	assert.Zero(t, ends.completed.Load(), "no worker has come yet")
	held.Work()
	assert.EqualValues(t, 1, ends.completed.Load())
	p.Cancel(panics, nil)
	held.Work()
}
