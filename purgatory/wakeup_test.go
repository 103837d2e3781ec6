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

// RocketMQ-7359: a registration did not try a second time.
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

	// A check of the second key leaves the mark.
	left.Store(100)
	o = &op{}
	o.try = func() bool {
		if left.Add(-1) <= 0 {
			return true
		}
		inBackground(func() { p.CheckAndComplete("b") })()
		return false
	}
	_, err = p.TryCompleteElseWatch(o, hour, "a", "b")
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
	assert.True(t, held.Queued(), "the rest is left to a worker")
	nested = true
	o.tries.Store(0)
	p.CheckAndComplete("a")
	assert.EqualValues(t, 1+8, o.tries.Load(), "a check inside a try of its key is a mark: the walk begins again, eight times")
	assert.True(t, held.Queued(), "the rest is left to a worker")
	met = true
	held.Work()
	ended(t, o, operation.Satisfied)
}

// A TryComplete that returns false ends no check. The operations are more than a walk takes at once.
func TestANoEndsNoCheck(t *testing.T) {
	const waiting = 300
	for name, check := range map[string]func(p *stringPurgatory){
		"check":             func(p *stringPurgatory) { p.CheckAndComplete("a") },
		"check of two":      func(p *stringPurgatory) { p.CheckAndComplete("b", "a") },
		"up to":             func(p *stringPurgatory) { p.CheckAndCompleteUpTo("a", 7) },
		"signal":            func(p *stringPurgatory) { p.Signal("a") },
		"signal of two":     func(p *stringPurgatory) { p.Signal("b", "a") },
		"signal up to":      func(p *stringPurgatory) { p.SignalUpTo("a", 7) },
		"check of a Goexit": func(p *stringPurgatory) { endsItsGoroutine(p, "c", func() { p.CheckAndComplete("c", "a") }) },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			var met atomic.Bool
			no := submitted(t, p, "a")
			var all []*op
			for i := range waiting {
				o := until(&met)
				if i%2 == 0 {
					submit(t, p, o, hour, "a")
				} else {
					_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "a", Position: 5})
					require.NoError(t, err)
				}
				all = append(all, o)
			}
			met.Store(true)
			check(p)
			for _, o := range all {
				endsSoon(t, o, operation.Satisfied)
			}
			assert.EqualValues(t, 3, no.tries.Load())
			pending(t, no)
		})
	}
}

// endsItsGoroutine runs check on another goroutine, after it has registered an operation for key
// whose callback ends the goroutine.
func endsItsGoroutine(p *stringPurgatory, key string, check func()) {
	o := &op{complete: runtime.Goexit}
	o.try = func() bool { return o.tries.Load() > 2 }
	_, _ = p.TryCompleteElseWatch(o, hour, key)
	inBackground(check)()
}

func TestKAFKA6653AChangeDuringACheckIsSeen(t *testing.T) {
	// Kafka used a try-lock on the operation, to avoid a deadlock, and missed a change that
	// came while another goroutine held the lock.
	for range 300 {
		p := onManualClock[string](t)
		var a, b atomic.Bool
		o := &op{try: func() bool { ok := a.Load(); runtime.Gosched(); return ok && b.Load() }}
		submit(t, p, o, hour, "a", "b")
		var wg sync.WaitGroup
		wg.Go(func() { a.Store(true); p.CheckAndComplete("a") })
		wg.Go(func() { b.Store(true); p.CheckAndComplete("b") })
		wg.Wait()
		ended(t, o, operation.Satisfied)
	}
}

func TestKAFKA2253NoOperationIsAddedToARemovedList(t *testing.T) {
	// A key's list becomes empty and is removed while another operation is added to it.
	p := open[int](t, purgatory.WithWatcherShards(1))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				var met atomic.Bool
				o := until(&met)
				_, err := p.TryCompleteElseWatch(o, hour, 1)
				assert.NoError(t, err)
				met.Store(true)
				p.CheckAndComplete(1)
				eventually(t, func() bool { return o.Outcome() == operation.Satisfied }, "found under its key")
			}
		})
	}
	wg.Wait()
	empty(t, p)
}

func TestRegistrationTriesTwiceForAnyNumberOfKeys(t *testing.T) {
	p := onManualClock[int](t)
	for n := 1; n <= 1000; n *= 10 { // KAFKA-1952: once for each key
		keys := make([]int, n)
		for i := range keys {
			keys[i] = i
		}
		o := submitted(t, p, keys...)
		assert.EqualValues(t, 2, o.tries.Load())
	}
	o := &op{}
	submit(t, p, o, 0, 1, 2, 3)
	assert.EqualValues(t, 2, o.tries.Load(), "also when there is no time to wait")
}
