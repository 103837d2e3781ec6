package purgatory

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

// deadline is how long tests wait for another goroutine.
var deadline = 30 * time.Second

// ShortenDeadline is called before all tests where the whole run has little time.
func ShortenDeadline(d time.Duration) { deadline = min(deadline, d) }

// apart runs f on another goroutine, which f may end, and waits for that goroutine.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// restless is an operation whose state changes in each try, and whose key another goroutine
// checks then.
type restless struct {
	operation.DelayedOperation
	p     *DelayedOperationPurgatory[string]
	yes   int32 // the number of the try that returns true
	calm  atomic.Bool
	tries atomic.Int32
	ended atomic.Int32
}

func (r *restless) TryComplete() bool {
	n := r.tries.Add(1)
	if !r.calm.Load() {
		apart(func() { r.p.CheckAndComplete("a") })
	}
	return n == r.yes
}
func (r *restless) OnComplete()   { r.ended.Add(1) }
func (r *restless) OnExpiration() {}

// A holder tries again as often as it is asked to, up to a bound; then a worker tries. So
// the caller returns, and the operation is tried after the last change.
func TestAfterABoundOfRetriesAWorkerTries(t *testing.T) {
	p := newManual(t)
	op := &restless{p: p, yes: 100}
	op.calm.Store(true)
	_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
	require.NoError(t, err)
	require.EqualValues(t, 2, op.tries.Load())
	op.calm.Store(false)
	done := make(chan int)
	go func() { done <- p.CheckAndComplete("a") }()
	select {
	case completed := <-done:
		assert.LessOrEqual(t, completed, 1)
	case <-time.After(deadline):
		t.Fatal("the caller is kept")
	}
	require.Eventually(t, func() bool { return op.ended.Load() == 1 }, deadline, time.Millisecond)
	assert.EqualValues(t, 100, op.tries.Load(), "the 100th said yes")
	assert.Equal(t, operation.Satisfied, op.Outcome())
}

func TestAHolderRetriesAtMostMaxLooksTimes(t *testing.T) {
	p := newManual(t)
	held := HoldWorkers(t, p) // so only the caller tries
	op := &restless{p: p}
	op.calm.Store(true)
	_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
	require.NoError(t, err)
	before := op.tries.Load()
	op.calm.Store(false)
	assert.Zero(t, p.CheckAndComplete("a"))
	assert.EqualValues(t, maxInRow, op.tries.Load()-before)
	assert.Positive(t, held.Asked(), "the next look is left to a worker")
	assert.True(t, p.watchers.Signalled())
	assert.Equal(t, operation.Pending, op.Outcome())
	op.calm.Store(true)
	s := p.Stats()
	assert.EqualValues(t, maxInRow, s.Checks)
	assert.EqualValues(t, maxInRow, s.WastedChecks)
	assert.True(t, p.ForceComplete(op), "nobody holds it")
}

// The operation that a goroutine holds when user code ends it by runtime.Goexit is let go of.
func TestGoexitLeavesNoOperationHeld(t *testing.T) {
	for name, leave := range map[string]func(p *DelayedOperationPurgatory[string], op *probe){
		"try": func(p *DelayedOperationPurgatory[string], op *probe) {
			op.while = runtime.Goexit
			p.CheckAndComplete("a")
		},
		"String": func(p *DelayedOperationPurgatory[string], op *probe) {
			op.while = runtime.Goexit
			p.Inspect(0, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newManual(t)
			op := submit(t, p, time.Hour, "a")
			apart(func() { leave(p, op) })
			op.while = nil
			p.ForceComplete(op) // the goroutine that goes on may be about to let go of it
			assert.Eventually(t, func() bool { return p.watchers.Unanswered() == 0 }, time.Minute, time.Millisecond)
			assert.Equal(t, operation.Forced, op.Outcome())
		})
	}
}

// Marks that were left to a goroutine which runtime.Goexit ends are not lost.
func TestGoexitLosesNoMarkLeftToTheHolder(t *testing.T) {
	gone := errors.New("gone")
	for name, of := range map[string]func(p *DelayedOperationPurgatory[string], op *probe){
		"CheckAndComplete": func(p *DelayedOperationPurgatory[string], _ *probe) { p.CheckAndComplete("a") },
		"Inspect":          func(p *DelayedOperationPurgatory[string], _ *probe) { p.Inspect(0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newManual(t)
			op := submit(t, p, time.Hour, "a", "b")
			op.while = func() {
				op.while = nil
				apart(func() { assert.False(t, p.Cancel(op, gone), "left to the holder") })
				runtime.Goexit()
			}
			apart(func() { of(p, op) })
			require.Eventually(t, p.idle, deadline, time.Millisecond)
			assert.Equal(t, operation.Cancelled, op.Outcome())
			assert.Equal(t, gone, op.Cause())
			assert.Zero(t, p.wishes.Len())
			assert.Zero(t, p.Watched())

			op = submit(t, p, time.Hour, "a")
			op.while = func() {
				op.while, op.ready = nil, true
				apart(func() { assert.Zero(t, p.CheckAndComplete("a"), "left to the holder") })
				runtime.Goexit()
			}
			apart(func() { of(p, op) })
			require.Eventually(t, func() bool { return op.Outcome() == operation.Satisfied }, deadline, time.Millisecond)
		})
	}
}

// The cause of a wish to cancel is dropped when the operation has ended, in whatever way.
func TestAnEndedOperationDropsAnUnusedCancelCause(t *testing.T) {
	gone := errors.New("gone")
	for name, says := range map[string]bool{"yes": true, "no": false} {
		for _, at := range []string{"the first try", "the second try", "a check"} {
			t.Run(name+" of "+at, func(t *testing.T) {
				p := newManual(t)
				op := &probe{}
				tries, wished := 0, map[string]int{"the first try": 1, "the second try": 2, "a check": 3}[at]
				op.while = func() {
					if tries++; tries == wished {
						op.ready = says
						apart(func() { assert.False(t, p.Cancel(op, gone)) })
						assert.Equal(t, 1, p.wishes.Len())
					}
				}
				_, err := p.TryCompleteElseWatch(op, time.Hour, "a", "b")
				require.NoError(t, err)
				p.CheckAndComplete("b")
				assert.Zero(t, p.wishes.Len())
				assert.Zero(t, p.timer.Pending())
				if says {
					assert.Equal(t, operation.Satisfied, op.Outcome())
				} else {
					assert.Equal(t, operation.Cancelled, op.Outcome())
					assert.Equal(t, gone, op.Cause())
				}
			})
		}
	}
}

// Many goroutines check and end the same operations. Each operation ends once, and none
// stays held.
func TestNoOperationStaysHeldAfterRacingCalls(t *testing.T) {
	p := newManual(t, WithWatcherShards(2))
	const operations = 300
	var ops []*restless
	for i := range operations {
		op := &restless{p: p, yes: int32(3 + i%7)}
		op.calm.Store(i%3 > 0)
		_, err := p.TryCompleteElseWatch(op, time.Hour, "a", "b")
		require.NoError(t, err)
		ops = append(ops, op)
	}
	var group sync.WaitGroup
	for _, do := range []func(op *restless){
		func(*restless) { p.CheckAndComplete("b") },
		func(*restless) { p.Signal("a") },
		func(op *restless) { p.Cancel(op, nil) },
		func(*restless) { p.Inspect(0, 3) },
	} {
		group.Go(func() {
			for i, op := range ops {
				if i%5 == 0 {
					do(op)
				}
			}
		})
	}
	group.Wait()
	p.CancelForKey("a", nil)
	require.Eventually(t, p.idle, deadline, time.Millisecond)
	for _, op := range ops {
		assert.EqualValues(t, 1, op.ended.Load())
	}
	assert.Zero(t, p.wishes.Len())
	assert.Zero(t, p.NumDelayed())
}
