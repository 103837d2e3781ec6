package purgatory_test

import (
	"runtime"
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
	p := onManualClock[string](t)
	op := probed(t, p, time.Hour, "a")
	op.while = runtime.Goexit
	inBackground(func() { p.CheckAndComplete("a") })()
	op.while = nil
	assert.True(t, p.ForceComplete(op))
	assert.True(t, p.Idle())
}

// Marks that were left to a goroutine which runtime.Goexit ends are not lost.
func TestGoexitLosesNoMarkLeftToTheHolder(t *testing.T) {
	p := onManualClock[string](t)
	op := probed(t, p, time.Hour, "a", "b")
	op.while = func() {
		op.while = nil
		inBackground(func() { assert.False(t, p.Cancel(op, errGone), "left to the holder") })()
		runtime.Goexit()
	}
	inBackground(func() { p.CheckAndComplete("a") })()
	assert.Equal(t, operation.Cancelled, op.Outcome())
	assert.Equal(t, errGone, op.Cause())
	assert.Zero(t, p.Causes())
	assert.Zero(t, p.Watched())

	op = probed(t, p, time.Hour, "a")
	op.while = func() {
		op.while, op.ready = nil, true
		inBackground(func() { assert.Zero(t, p.CheckAndComplete("a"), "left to the walk") })()
		runtime.Goexit()
	}
	inBackground(func() { p.CheckAndComplete("a") })()
	assert.Equal(t, operation.Satisfied, op.Outcome())
}

// exits is a key whose String calls runtime.Goexit.
type exits int

func (exits) String() string { runtime.Goexit(); return "" }

// A refusal that names such a key has given back what the operation had.
func TestAGoexitInARefusalLeavesNothing(t *testing.T) {
	p := onManualClock[exits](t, purgatory.WithMaxPending(2), purgatory.WithMaxPendingPerKey(1))
	submit(t, p, &op{}, hour, 1)
	refused := &op{}
	for name, register := range map[string]func(){
		"operation": func() { _, _ = p.TryCompleteElseWatch(refused, hour, 1) },
		"Await":     func() { _ = p.Await(t.Context(), hour, func() bool { return false }, 1) },
		"StartWait": func() { _, _ = p.StartWait(hour, func() bool { return false }, 1) },
	} {
		inBackground(register)()
		assert.Equal(t, []int{1, 1}, []int{p.NumDelayed(), p.Watched()}, name)
	}
	assert.False(t, p.Cancel(refused, errGone))
	assert.Zero(t, p.Waited(refused))
	submit(t, p, &op{}, hour, 2)
}

// leaver is an operation whose callbacks call runtime.Goexit.
type leaver struct {
	operation.DelayedOperation
	ready              bool
	completed, expired atomic.Int32
	stay               bool // OnComplete returns; only OnExpiration calls Goexit
}

func (l *leaver) TryComplete() bool { return l.ready }
func (l *leaver) OnExpiration()     { l.expired.Add(1); runtime.Goexit() }

func (l *leaver) OnComplete() {
	l.completed.Add(1)
	if !l.stay {
		runtime.Goexit()
	}
}

// All callbacks of all operations run although callbacks call runtime.Goexit, on the goroutine that it ends: within a
// batch, and between two batches.
func TestGoexitInACallbackSkipsNoOtherCallback(t *testing.T) {
	for _, n := range []int{1, 2, 2*purgatory.BatchSize + 1, 900} {
		for name, end := range map[string]func(p *purgatory.Purgatory[string], ops []*leaver){
			"CheckAndComplete": func(p *purgatory.Purgatory[string], ops []*leaver) {
				for _, op := range ops {
					op.ready = true
				}
				p.CheckAndComplete("a")
			},
			"CancelForKey": func(p *purgatory.Purgatory[string], _ []*leaver) { p.CancelForKey("a", nil) },
			"Close":        func(p *purgatory.Purgatory[string], _ []*leaver) { p.Close() },
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
			require.True(t, p.Idle(), "%s of %d", name, n)
			for _, op := range ops {
				assert.EqualValues(t, 1, op.completed.Load())
				assert.Zero(t, op.expired.Load())
			}
			assert.Zero(t, p.NumDelayed())
		}
	}
}

// OnExpiration runs after an OnComplete that called runtime.Goexit, on the same goroutine or
// on a worker.
func TestOnExpirationRunsAfterGoexitInOnComplete(t *testing.T) {
	for _, stay := range []bool{false, true} {
		for _, frames := range []int{0, machine.DeepStack} {
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
	inBackground(func() { p.CheckAndComplete(keys...) })()
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "workers check the others")
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
		ended(t, o, operation.Satisfied)
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
	ended(t, all[0], operation.Satisfied)
	ended(t, all[2], operation.Satisfied)
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
		p.ForceComplete(o) // or a worker does, if it tries o at this moment, as after a panic in the first try
		eventually(t, func() bool { return o.Outcome() == operation.Forced }, "its end")
		submit(t, p, &op{}, hour, "a")
		require.NoError(t, p.Close())
	}
}

// On a manual clock the callbacks of what has expired have run when AdvanceClock ends, also after
// a runtime.Goexit in one of them, and beside a blocked callback.
func TestAGoexitInAdvanceClockLeavesNoCallbackToAWorker(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithWatcherShards(1), purgatory.WithWorkers(1))
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

// User code that unwinds the stack, by a panic or runtime.Goexit, at places other than a
// callback: the logger, the first try of a registration.

// After a panic in its first try an operation waits, and after a runtime.Goexit there it is refused: nobody is told.
func TestAFirstTryThatUnwinds(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("of the try's") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var told panics
			p := open[string](t, told.option(), purgatory.WithMaxPending(1))
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
			if name == "panic" {
				eventually(t, func() bool { return o.completed.Load() == 1 }, "it is tried with the change visible")
				return
			}
			pending(t, o)
			assert.Zero(t, p.CheckAndComplete("a"))
			_, err := p.TryCompleteElseWatch(o, hour, "a")
			require.ErrorIs(t, err, purgatory.ErrUsed)
			empty(t, p)
			submitted(t, p, "a") // the place is free
		})
	}
}

// The second try of a registration asks for the end of its operation and calls runtime.Goexit: the operation ends.
func TestAnEndThatARegistrationWasAskedForOutlivesItsGoexit(t *testing.T) {
	p := onManualClock[string](t)
	o := &op{}
	o.try = func() bool {
		if o.tries.Load() == 2 {
			assert.False(t, p.ForceComplete(o), "left to the holder")
			runtime.Goexit()
		}
		return false
	}
	inBackground(func() { _, _ = p.TryCompleteElseWatch(o, hour, "a") })()
	ended(t, o, operation.Forced)
	empty(t, p)
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

// A callback of an operation that its registration ends calls runtime.Goexit: it has ended all the same, once.
func TestAGoexitInACallbackOfARegistration(t *testing.T) {
	for name, yes := range map[string]int32{"first try": 1, "second try": 2} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, purgatory.WithMaxPending(1))
			o := &op{complete: runtime.Goexit}
			o.try = func() bool { return o.tries.Load() == yes }
			inBackground(func() { _, _ = p.TryCompleteElseWatch(o, hour, "a") })()
			ended(t, o, operation.Satisfied)
			assert.False(t, p.ForceComplete(o))
			p.CheckAndComplete("a")
			ended(t, o, operation.Satisfied)
			conserved(t, p)
			empty(t, p)
			submitted(t, p, "a") // the place is free
		})
	}
}
