package purgatory_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestAChangeDuringACheckIsSeen(t *testing.T) {
	p := onManualClock[string](t)
	var met atomic.Bool
	g := newGate()
	o := &op{}
	held := false
	o.try = func() bool {
		seen := met.Load() // reads the state, blocks, then answers: the change comes in between
		if o.tries.Load() == 3 {
			held = true
			g.pass()
		}
		return seen
	}
	submit(t, p, o, hour, "a")
	n := 0
	wait := inBackground(func() { n = p.CheckAndComplete("a") })
	<-g.entered
	met.Store(true)
	assert.Zero(t, p.CheckAndComplete("a"), "left to the goroutine that runs the check")
	close(g.leave)
	wait()
	assert.Equal(t, 1, n)
	assert.True(t, held)
	assert.EqualValues(t, 4, o.tries.Load())
	ended(t, o, operation.Satisfied)
}

func TestAChangeDuringRegistrationIsSeen(t *testing.T) {
	for try := 1; try <= 2; try++ {
		p := onManualClock[string](t)
		var met atomic.Bool
		g := newGate()
		o := &op{}
		o.try = func() bool {
			seen := met.Load()
			if int(o.tries.Load()) == try {
				g.pass()
			}
			return seen
		}
		var completed bool
		wait := inBackground(func() { completed, _ = p.TryCompleteElseWatch(o, hour, "a", "b") })
		<-g.entered
		met.Store(true)
		p.CheckAndComplete("b")
		close(g.leave)
		wait()
		assert.True(t, completed)
		ended(t, o, operation.Satisfied)
		empty(t, p)
	}
}

func TestNoWakeUpIsLost(t *testing.T) {
	// Operations register while their condition becomes true and one check follows.
	// Each has to end before its timeout.
	p := open[int](t, purgatory.WithWatcherShards(2))
	const rounds, registrars = 1500, 3
	for round := range rounds {
		var met atomic.Bool
		var start, done sync.WaitGroup
		start.Add(1)
		ops := make([]*op, registrars)
		for i := range ops {
			o := until(&met)
			ops[i] = o
			done.Go(func() {
				start.Wait()
				_, err := p.TryCompleteElseWatch(o, hour, round%3, 3+i)
				assert.NoError(t, err)
			})
		}
		done.Go(func() {
			start.Wait()
			if round%2 == 0 {
				runtime.Gosched()
			}
			met.Store(true)
			p.CheckAndComplete(round % 3)
		})
		start.Done()
		done.Wait()
		for _, o := range ops {
			ended(t, o, operation.Satisfied)
		}
		if t.Failed() {
			return
		}
	}
	empty(t, p)
}

func TestAnOperationThatIsCheckedInEachTryReturnsItsCaller(t *testing.T) {
	p := open[string](t)
	var left atomic.Int32
	left.Store(100)
	o := &op{}
	o.try = func() bool {
		if left.Add(-1) <= 0 {
			return true
		}
		inBackground(func() { p.CheckAndComplete("a") })() // finds it busy, and leaves a mark
		return false
	}
	_, err := p.TryCompleteElseWatch(o, hour, "a")
	require.NoError(t, err)
	assert.LessOrEqual(t, o.tries.Load(), int32(100))
	eventually(t, func() bool { return o.completed.Load() == 1 }, "a worker goes on with it")
	ended(t, o, operation.Satisfied)
	assert.EqualValues(t, 100, o.tries.Load())

	// A check of the second key leaves the mark. The first key is a NaN, which only the signal of its
	// holder finds.
	q := open[float64](t)
	nan := 0.0
	nan /= nan
	left.Store(100)
	o = &op{}
	o.try = func() bool {
		if left.Add(-1) <= 0 {
			return true
		}
		inBackground(func() { q.CheckAndComplete(1) })()
		return false
	}
	_, err = q.TryCompleteElseWatch(o, hour, nan, 1)
	require.NoError(t, err)
	eventually(t, func() bool { return o.completed.Load() == 1 }, "a worker goes on with it")
}

func TestOneCallerTriesAnOperationAtMostEightTimes(t *testing.T) {
	p := onManualClock[string](t)
	held := purgatory.HoldWorkers(t, p)
	met, nested := false, false
	o := &op{}
	o.try = func() bool {
		if nested {
			p.CheckAndComplete("a")
		} else {
			inBackground(func() { p.CheckAndComplete("a") })() // another goroutine leaves a mark
		}
		return met
	}
	submit(t, p, o, hour, "a")
	assert.EqualValues(t, 1+8, o.tries.Load(), "by its registration: before anybody can find it, and then")
	assert.True(t, held.Waiting(), "the rest is left to a worker")
	nested = true
	o.tries.Store(0)
	p.CheckAndComplete("a")
	assert.LessOrEqual(t, o.tries.Load(), int32(2), "a check inside a try is a signal")
	met = true
	held.Work()
	ended(t, o, operation.Satisfied)
}

func TestAPanicInTheSecondTryCountsAsFalse(t *testing.T) {
	var told panics
	p := onManualClock[string](t, told.option())
	o := &op{}
	o.try = func() bool {
		switch n := o.tries.Load(); {
		case n == 2:
			p.CheckAndComplete("a") // a mark
		case n > 2 && n < 20:
			panic("while looking again")
		}
		return false
	}
	submit(t, p, o, hour, "a")
	assert.EqualValues(t, 3, o.tries.Load())
	assert.EqualValues(t, 1, told.n.Load())
	pending(t, o)
}
