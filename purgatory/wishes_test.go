package purgatory_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// While one goroutine is inside an operation's TryComplete, other goroutines ask for the
// operation to be tried or ended. None waits for that goroutine, and no request is lost.

// heldOp is an operation whose TryComplete blocks until the test releases it.
type heldOp struct {
	op
	gate   atomic.Pointer[gate]
	answer atomic.Bool
}

func newHeldOp() *heldOp {
	o := &heldOp{}
	o.try = func() bool {
		if g := o.gate.Swap(nil); g != nil {
			g.pass()
		}
		return o.answer.Load()
	}
	return o
}

// holdInCheck returns when another goroutine, which has called CheckAndComplete, is inside
// the operation's TryComplete. proceed makes TryComplete return answer, and returns what
// CheckAndComplete has returned.
func (o *heldOp) holdInCheck(p *stringPurgatory, key string) (proceed func(answer bool) (n int)) {
	g := newGate()
	o.gate.Store(g)
	n := 0
	wait := inBackground(func() { n = p.CheckAndComplete(key) })
	<-g.entered
	return func(answer bool) int {
		o.answer.Store(answer)
		close(g.leave)
		wait()
		return n
	}
}

// holdInRegistration is holdInCheck for the first or the second try of
// TryCompleteElseWatch.
func (o *heldOp) holdInRegistration(p *stringPurgatory, try int, timeout time.Duration, keys ...string) (proceed func(answer bool) (completed bool, err error)) {
	g := newGate()
	o.try = func() bool {
		if int(o.tries.Load()) == try {
			g.pass()
		}
		return o.answer.Load()
	}
	var completed bool
	var err error
	wait := inBackground(func() { completed, err = p.TryCompleteElseWatch(o, timeout, keys...) })
	<-g.entered
	return func(answer bool) (bool, error) {
		o.answer.Store(answer)
		close(g.leave)
		wait()
		return completed, err
	}
}

// wishes are the ways to end an operation that another goroutine is trying.
var wishes = map[operation.Outcome]func(t *testing.T, p *stringPurgatory, o operation.Operation){
	operation.Forced: func(t *testing.T, p *stringPurgatory, o operation.Operation) {
		t.Helper()
		assert.False(t, p.ForceComplete(o), "not by this call")
	},
	operation.Cancelled: func(t *testing.T, p *stringPurgatory, o operation.Operation) {
		t.Helper()
		assert.False(t, p.Cancel(o, errGone), "not by this call")
	},
	operation.Expired: func(t *testing.T, p *stringPurgatory, _ operation.Operation) {
		t.Helper()
		p.AdvanceClock(time.Minute)
	},
	operation.Closed: func(t *testing.T, p *stringPurgatory, _ operation.Operation) {
		t.Helper()
		require.NoError(t, p.Close())
	},
}

// KAFKA-19312: an expiry overlapped a check.
func TestAnEndRequestedDuringACheckIsCarriedOut(t *testing.T) {
	for outcome, wish := range wishes {
		t.Run(outcome.String(), func(t *testing.T) {
			p := onManualClock[string](t)
			o := newHeldOp()
			submit(t, p, o, time.Minute, "a", "b")
			proceed := o.holdInCheck(p, "a")
			wish(t, p, o)
			pending(t, &o.op)
			assert.Equal(t, 1, proceed(false), "ended by the runner, at once")
			ended(t, &o.op, outcome)
			if outcome == operation.Cancelled {
				assert.Equal(t, errGone, o.Cause())
			}
			empty(t, p)
		})
	}
}

func TestATrueTryWinsOverAnEndRequest(t *testing.T) {
	for outcome, wish := range wishes {
		t.Run(outcome.String(), func(t *testing.T) {
			p := onManualClock[string](t)
			o := newHeldOp()
			submit(t, p, o, time.Minute, "a", "b")
			proceed := o.holdInCheck(p, "a")
			wish(t, p, o)
			assert.Equal(t, 1, proceed(true))
			ended(t, &o.op, operation.Satisfied)
			require.NoError(t, o.Cause())
			empty(t, p)
		})
	}
}

func TestTheFirstEndRequestWins(t *testing.T) {
	for first, leaveFirst := range wishes {
		for second, leaveSecond := range wishes {
			t.Run(first.String()+" then "+second.String(), func(t *testing.T) {
				p := onManualClock[string](t)
				o := newHeldOp()
				submit(t, p, o, time.Minute, "a")
				proceed := o.holdInCheck(p, "a")
				leaveFirst(t, p, o)
				leaveSecond(t, p, o)
				proceed(false)
				ended(t, &o.op, first)
			})
		}
	}
}

func TestAnEndRequestedDuringRegistrationIsCarriedOut(t *testing.T) {
	for outcome, wish := range wishes {
		if outcome == operation.Expired {
			continue // the registration leaves it to the timer: see the next test
		}
		for try := 1; try <= 2; try++ {
			t.Run(outcome.String()+[]string{"", " in the first try", " in the second try"}[try], func(t *testing.T) {
				p := onManualClock[string](t)
				o := newHeldOp()
				proceed := o.holdInRegistration(p, try, time.Minute, "a", "b")
				wish(t, p, o)
				completed, err := proceed(false)
				if outcome == operation.Closed && try == 1 {
					require.ErrorIs(t, err, purgatory.ErrClosed, "it was not watched yet")
					pending(t, &o.op)
					return
				}
				require.NoError(t, err)
				assert.True(t, completed, "by this very call")
				ended(t, &o.op, outcome)
				empty(t, p)
			})
		}
	}
}

// If the timeout passes during the registration, the registering goroutine does not expire
// the operation. A worker does.
func TestAnExpiryDuringRegistrationIsLeftToAWorker(t *testing.T) {
	p := onManualClock[string](t)
	registering := goroutine()
	o := &op{complete: func() { assert.NotEqual(t, registering, goroutine()) }}
	o.try = func() bool {
		switch o.tries.Load() {
		case 2:
			p.CheckAndComplete("a") // a mark: the registration tries once more
		case 3:
			p.AdvanceClock(time.Second) // a wish: the timeout has passed
			assert.False(t, p.Cancel(o, errGone), "the wish to expire came first")
		}
		return false
	}
	submit(t, p, o, time.Second, "a")
	assert.False(t, p.Extend(o, hour), "it has ended")
	endsSoon(t, o, operation.Expired)
	empty(t, p)
}

func TestCancelForKeyReachesAnOperationBeingTried(t *testing.T) {
	p := onManualClock[string](t)
	o, other := newHeldOp(), submitted(t, p, "a")
	submit(t, p, o, time.Minute, "b", "a")
	proceed := o.holdInCheck(p, "b")
	assert.Equal(t, 1, p.CancelForKey("a", errGone), "those that nobody is trying")
	ended(t, other, operation.Cancelled)
	pending(t, &o.op)
	assert.Equal(t, 1, proceed(false))
	ended(t, &o.op, operation.Cancelled)
	assert.Equal(t, errGone, o.Cause())
}

func TestNoMethodBlocksOnARunningTryComplete(t *testing.T) {
	p := onManualClock[string](t)
	o := newHeldOp()
	submit(t, p, o, time.Minute, "a", "b")
	proceed := o.holdInCheck(p, "a")
	// All these calls return while another goroutine is inside TryComplete.
	assert.Zero(t, p.CheckAndComplete("a"))
	assert.Zero(t, p.CheckAndComplete("b"))
	assert.Zero(t, p.CheckAndCompleteUpTo("b", 1))
	p.Signal("a")
	assert.True(t, p.Extend(o, 2*time.Minute))
	assert.False(t, p.ForceComplete(o))
	assert.False(t, p.Cancel(o, nil))
	assert.Zero(t, p.CancelForKey("b", nil))
	other := submitted(t, p, "a", "b")
	assert.True(t, p.ForceComplete(other))
	p.AdvanceClock(time.Second)
	assert.Equal(t, 1, p.NumDelayed())
	assert.EqualValues(t, 2, p.Stats().Watched)
	require.NoError(t, p.Close())
	proceed(false)
	ended(t, &o.op, operation.Forced)
}

func TestAnOperationMayEndItselfInTryComplete(t *testing.T) {
	tests := map[string]struct {
		do     func(p *stringPurgatory, o *op)
		answer bool
		want   operation.Outcome
	}{
		"force, no":   {func(p *stringPurgatory, o *op) { assert.False(t, p.ForceComplete(o)) }, false, operation.Forced},
		"force, yes":  {func(p *stringPurgatory, o *op) { assert.False(t, p.ForceComplete(o)) }, true, operation.Satisfied},
		"cancel, no":  {func(p *stringPurgatory, o *op) { assert.False(t, p.Cancel(o, errGone)) }, false, operation.Cancelled},
		"for key, no": {func(p *stringPurgatory, _ *op) { assert.Zero(t, p.CancelForKey("a", errGone)) }, false, operation.Cancelled},
		"close, no":   {func(p *stringPurgatory, _ *op) { assert.NoError(t, p.Close()) }, false, operation.Closed},
		"close, yes":  {func(p *stringPurgatory, _ *op) { assert.NoError(t, p.Close()) }, true, operation.Satisfied},
		"advance, no": {func(p *stringPurgatory, _ *op) { p.AdvanceClock(hour) }, false, operation.Expired},
		"submit again": {func(p *stringPurgatory, o *op) {
			_, err := p.TryCompleteElseWatch(o, hour, "b")
			assert.ErrorIs(t, err, purgatory.ErrUsed)
		}, true, operation.Satisfied},
	}
	for name, test := range tests {
		for _, stage := range []string{"second try", "check"} {
			t.Run(name+" in the "+stage, func(t *testing.T) {
				p := onManualClock[string](t)
				o := &op{}
				at := map[string]int32{"second try": 2, "check": 3}[stage]
				o.try = func() bool {
					if o.tries.Load() < at {
						return false
					}
					if o.tries.Load() == at {
						test.do(p, o)
					}
					return test.answer
				}
				completed, err := p.TryCompleteElseWatch(o, hour, "a")
				require.NoError(t, err)
				if stage == "check" {
					require.False(t, completed)
					assert.Equal(t, 1, p.CheckAndComplete("a"))
				}
				endsSoon(t, o, test.want) // an expiry in the registration is left to a worker
				empty(t, p)
			})
		}
	}
}

// restless is an operation whose state changes in each try, and whose key another goroutine
// checks then.
type restless struct {
	operation.DelayedOperation
	p     *purgatory.Purgatory[string]
	yes   int32 // the number of the try that returns true
	calm  atomic.Bool
	tries atomic.Int32
	ended atomic.Int32
}

func (r *restless) TryComplete() bool {
	n := r.tries.Add(1)
	if !r.calm.Load() {
		inBackground(func() { r.p.CheckAndComplete("a") })()
	}
	return n == r.yes
}

func (r *restless) OnComplete()   { r.ended.Add(1) }
func (r *restless) OnExpiration() {}

// An operation whose state changes in each try keeps a caller for a bounded number of tries, whichever of its keys is checked
// then. A worker goes on.
func TestACheckThatIsAskedForMoreWithoutEndReturns(t *testing.T) {
	for asked, want := range map[string]int{"a": 2 + 9, "b": 2 + 9*purgatory.MaxInRow} {
		p := onManualClock[string](t)
		held := purgatory.HoldWorkers(t, p) // so only the caller tries
		var restless atomic.Bool
		o := &op{}
		o.try = func() bool {
			if restless.Load() {
				inBackground(func() { p.CheckAndComplete(asked) })()
			}
			return false
		}
		submit(t, p, o, hour, "a", "b")
		restless.Store(true)
		assert.Zero(t, p.CheckAndComplete("a"))
		assert.EqualValues(t, want, o.tries.Load(), "of the registration, and of nine passes")
		assert.Positive(t, held.Asked(), "the next try is left to a worker")
		assert.True(t, held.Queued())
		restless.Store(false)
		tries := o.tries.Load()
		held.Work()
		assert.Equal(t, tries+1, o.tries.Load())
		assert.True(t, p.ForceComplete(o), "nobody holds it")
		empty(t, p)
	}
}

// Checks that meet another one of their key leave a mark, return at once, and cost one more walk, however many they are. It goes as
// far as the farthest of them.
func TestAStormOfChecksCostsTwo(t *testing.T) {
	p := onManualClock[string](t)
	o := newHeldOp()
	submit(t, p, o, hour, "a")
	near, far := &op{}, &op{}
	atPosition(t, p, near, "a", 500)
	atPosition(t, p, far, "a", 1000)
	g := newGate()
	o.gate.Store(g)
	var ended int
	wait := inBackground(func() { ended = p.CheckAndCompleteUpTo("a", 10) })
	<-g.entered
	near.try = func() bool { return true }
	for i := range int64(1000) {
		require.Zero(t, p.CheckAndCompleteUpTo("a", i))
		p.SignalUpTo("a", i)
	}
	assert.EqualValues(t, 2, near.tries.Load())
	close(g.leave)
	wait()
	assert.Equal(t, 1, ended, "the walk that is under way ends it")
	assert.EqualValues(t, 4, o.tries.Load(), "two walks")
	assert.EqualValues(t, 2, far.tries.Load())
	assert.False(t, p.Watchers().Signalled(), "nothing is left to a worker")
}

// In a TryComplete a check of the same key is a mark: the walk begins again. Nothing nests.
func TestACheckOfItsOwnKeyInATryIsAMark(t *testing.T) {
	p := onManualClock[string](t)
	deep, depth := 0, 0
	met := false
	behind := &op{try: func() bool { return met }}
	submit(t, p, behind, hour, "a")
	o := &op{}
	o.try = func() bool {
		depth++
		defer func() { depth-- }()
		deep = max(deep, depth)
		if o.tries.Load() == 3 {
			met = true // behind was tried in vain
			assert.Zero(t, p.CheckAndComplete("a"))
			pending(t, behind)
		}
		return false
	}
	submit(t, p, o, hour, "a")
	assert.Equal(t, 1, p.CheckAndComplete("a"))
	ended(t, behind, operation.Satisfied)
	assert.Equal(t, []int{1, 4}, []int{deep, int(o.tries.Load())})
}

// One check ends operations that differ in outcome, cause, age and first key: each gets its own.
func TestACheckEndsEachOfItsBatchInItsOwnWay(t *testing.T) {
	gone, away := errors.New("gone"), errors.New("away")
	each := []struct {
		in    func(p *stringPurgatory, o *op) // in its try
		says  bool
		want  operation.Outcome
		cause error
	}{
		{func(p *stringPurgatory, o *op) { p.Cancel(o, gone) }, false, operation.Cancelled, gone},
		{func(p *stringPurgatory, o *op) { p.Cancel(o, away) }, true, operation.Satisfied, nil},
		{func(p *stringPurgatory, o *op) { p.Cancel(o, away) }, false, operation.Cancelled, away},
		{func(*stringPurgatory, *op) {}, false, operation.Pending, nil},
		{func(p *stringPurgatory, o *op) { p.ForceComplete(o) }, false, operation.Forced, nil},
		{func(p *stringPurgatory, o *op) { p.Cancel(o, nil) }, false, operation.Cancelled, nil},
		{func(*stringPurgatory, *op) {}, true, operation.Satisfied, nil},
	}
	for name, check := range map[string]func(p *stringPurgatory){
		"here":        func(p *stringPurgatory) { assert.Equal(t, 6, p.CheckAndComplete("all")) },
		"by a worker": func(p *stringPurgatory) { p.Signal("all") },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, purgatory.WithDiagnostics())
			var begun atomic.Bool
			var ops []*op
			want := map[operation.Outcome]float64{}
			for i, e := range each {
				o := &op{}
				o.try = func() bool {
					if begun.Load() {
						e.in(p, o)
					}
					return begun.Load() && e.says
				}
				submit(t, p, o, hour, fmt.Sprint("own", i), "all")
				ops = append(ops, o)
				want[e.want] += float64(len(each) - i)
				p.AdvanceClock(time.Second)
			}
			begun.Store(true)
			check(p)
			for i, e := range each {
				if e.want == operation.Pending {
					pending(t, ops[i])
					continue
				}
				endsSoon(t, ops[i], e.want)
				assert.Equal(t, e.cause, ops[i].Cause(), name)
			}
			assert.Zero(t, p.Causes())
			assert.Equal(t, []int{1, 2, 2}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)})
			s := conserved(t, p)
			for o, n := range map[operation.Outcome]int64{operation.Satisfied: 2, operation.Cancelled: 3, operation.Forced: 1} {
				assert.Equal(t, []int64{n, n}, []int64{s.Ended(o), s.Waited[o].Count()}, o)
				assert.InDelta(t, want[o], s.Waited[o].Sum, 1e-6, o)
			}
		})
	}
}

// The cause of a wish to cancel is dropped when the operation has ended, in whatever way.
func TestAnEndedOperationDropsAnUnusedCancelCause(t *testing.T) {
	gone := errors.New("gone")
	for name, says := range map[string]bool{"yes": true, "no": false} {
		for _, at := range []string{"the first try", "the second try", "a check"} {
			t.Run(name+" of "+at, func(t *testing.T) {
				clock, err := timer.NewManualTimer()
				require.NoError(t, err)
				p := open[string](t, purgatory.WithTimer(clock))
				op := &probe{}
				tries, wished := 0, map[string]int{"the first try": 1, "the second try": 2, "a check": 3}[at]
				op.while = func() {
					if tries++; tries == wished {
						op.ready = says
						inBackground(func() { assert.False(t, p.Cancel(op, gone)) })()
						assert.Equal(t, 1, p.Causes())
					}
				}
				_, err = p.TryCompleteElseWatch(op, time.Hour, "a", "b")
				require.NoError(t, err)
				p.CheckAndComplete("b")
				assert.Zero(t, p.Causes())
				assert.Zero(t, clock.Pending())
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
	p := onManualClock[string](t, purgatory.WithWatcherShards(2))
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
		func(*restless) { p.Inspect(3) },
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
	require.Eventually(t, p.Idle, deadline, time.Millisecond)
	for _, op := range ops {
		assert.EqualValues(t, 1, op.ended.Load())
	}
	assert.Zero(t, p.Causes())
	assert.Zero(t, p.NumDelayed())
}
