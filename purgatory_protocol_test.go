package purgatory_test

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
	"github.com/delayedop/purgatory/purgatory"
)

// What happens to an operation while a goroutine is inside its TryComplete: nobody
// waits for that goroutine, and nothing that was asked is lost.

// heldOp is an operation whose TryComplete a test holds.
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

// holdInCheck returns with the operation's TryComplete under way on a goroutine that
// called CheckAndComplete; proceed lets it go on, and returns how many it ended.
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

// holdInRegistration does the same with the first or the second try of
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

// wishes are the ways to end an operation that somebody else is trying.
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

func TestAWishLeftToARunningCheckIsCarriedOutWhenItSaysNo(t *testing.T) {
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

func TestAYesWinsOverAWish(t *testing.T) {
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

func TestTheFirstWishWins(t *testing.T) {
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

func TestAWishLeftToARegistrationIsCarriedOutByIt(t *testing.T) {
	for outcome, wish := range wishes {
		if outcome == operation.Expired {
			continue // nothing is timed before the second try has said no
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

// The registration goes on in vain, but does not expire the operation itself: that is for
// a worker, and here for who moves the clock.
func TestAnExpiryWishedForDuringARegistrationIsLeftToTheTimer(t *testing.T) {
	p := onManualClock[string](t)
	o := &op{}
	o.try = func() bool {
		switch o.tries.Load() {
		case 2:
			p.CheckAndComplete("a") // have it look again, when it is timed
		case 3:
			p.AdvanceClock(time.Second) // it is to expire
		}
		return false
	}
	submit(t, p, o, time.Second, "a")
	pending(t, o)
	p.AdvanceClock(0)
	ended(t, o, operation.Expired)
	empty(t, p)
}

func TestCancelForKeyMeetsARunningCheck(t *testing.T) {
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
	// All of this returns while the check is under way, or the test hangs.
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

// Nobody has to know how far a registration has come to ask for a later deadline: until it is through the answer is no.
func TestExtendWhileRegistering(t *testing.T) {
	p := onManualClock[string](t)
	o := new(op)
	o.try = func() bool {
		assert.False(t, p.Extend(o, hour), "by its own registration")
		return false
	}
	submit(t, p, o, time.Minute, "a")
	assert.EqualValues(t, 2, o.tries.Load())
	o.try = func() bool {
		assert.True(t, p.Extend(o, hour), "by its own check")
		return false
	}
	p.CheckAndComplete("a")
	assert.EqualValues(t, 3, o.tries.Load())

	for range 200 {
		o := new(op)
		var wg sync.WaitGroup
		begun := make(chan struct{})
		wg.Go(func() {
			close(begun)
			for !p.Extend(o, 2*hour) {
				runtime.Gosched()
			}
		})
		<-begun
		submit(t, p, o, time.Minute, "a")
		wg.Wait()
		p.AdvanceClock(time.Minute)
		pending(t, o)
		p.ForceComplete(o)
		assert.False(t, p.Extend(o, hour), "it has ended")
	}
}

func TestAStateChangeDuringACheckIsLookedAtAgain(t *testing.T) {
	p := onManualClock[string](t)
	var met atomic.Bool
	g := newGate()
	o := &op{}
	held := false
	o.try = func() bool {
		seen := met.Load() // looks before, answers after: the change falls between
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

func TestAStateChangeWhileRegisteringIsSeen(t *testing.T) {
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

func TestRegisteringTriesTwiceHoweverManyKeysThereAre(t *testing.T) {
	p := onManualClock[int](t)
	for keys := 1; keys <= 100; keys *= 10 {
		o := submitted(t, p, make([]int, keys)...)
		assert.EqualValues(t, 2, o.tries.Load())
	}
	o := &op{}
	submit(t, p, o, 0, 1, 2, 3)
	assert.EqualValues(t, 1, o.tries.Load(), "one try when there is no time to wait")
}

func TestNoWakeUpIsLost(t *testing.T) {
	// Operations register while their condition becomes true and one check follows.
	// Each has to end without its timeout, whatever the interleaving.
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

func TestTryCompleteNeverOverlapsItselfOrTheCallbacks(t *testing.T) {
	p := open[int](t, purgatory.WithTick(100*time.Microsecond), purgatory.WithWatcherShards(2))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				var inside atomic.Int32
				alone := func() {
					if !assert.EqualValues(t, 1, inside.Add(1)) {
						return
					}
					runtime.Gosched()
					inside.Add(-1)
				}
				calls := 0 // unguarded: the race detector sees an overlap, too
				o := &op{complete: func() { alone(); calls++ }, expire: func() { alone(); calls++ }}
				o.try = func() bool { alone(); calls++; return calls > 4 }
				_, err := p.TryCompleteElseWatch(o, time.Duration(i%5)*50*time.Microsecond, 0, 1)
				assert.NoError(t, err)
				p.CheckAndComplete(g % 2)
				switch i % 4 {
				case 0:
					p.ForceComplete(o)
				case 1:
					p.Cancel(o, errGone)
				case 2:
					p.Signal(1)
				}
			}
		})
	}
	wg.Wait()
	p.CancelForKey(0, nil)
	eventually(t, func() bool { return p.NumDelayed() == 0 }, "all ended")
	assert.EqualValues(t, 1200, conserved(t, p).Accepted)
}

func TestVerbsFromItsOwnTryComplete(t *testing.T) {
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
				} else if test.want == operation.Expired {
					p.AdvanceClock(hour) // it was not timed when time passed
				}
				ended(t, o, test.want)
				empty(t, p)
			})
		}
	}
}

func TestAnOperationThatKeepsChangingItsOwnStateDoesNotKeepItsCaller(t *testing.T) {
	p := open[string](t)
	var left atomic.Int32
	left.Store(100)
	o := &op{}
	o.try = func() bool {
		if left.Add(-1) <= 0 {
			return true
		}
		p.CheckAndComplete("a") // its own key: finds it busy, and leaves a mark
		return false
	}
	_, err := p.TryCompleteElseWatch(o, hour, "a")
	require.NoError(t, err)
	assert.LessOrEqual(t, o.tries.Load(), int32(100))
	eventually(t, func() bool { return o.completed.Load() == 1 }, "a worker goes on with it")
	ended(t, o, operation.Satisfied)
	assert.EqualValues(t, 100, o.tries.Load())

	// The mark was left by another key's check, and the first key cannot be found.
	q := open[float64](t)
	nan := 0.0
	nan /= nan
	left.Store(100)
	o = &op{}
	o.try = func() bool {
		if left.Add(-1) <= 0 {
			return true
		}
		q.CheckAndComplete(1)
		return false
	}
	_, err = q.TryCompleteElseWatch(o, hour, nan, 1)
	require.NoError(t, err)
	eventually(t, func() bool { return o.completed.Load() == 1 }, "a worker goes on with it")
}

func TestAnOperationThatKeepsChangingItsOwnStateIsTriedEightTimesByOneCaller(t *testing.T) {
	var workers []func()
	p := onManualClock[string](t, purgatory.WithExecutor(func(run func()) error {
		workers = append(workers, run)
		return nil
	}))
	met := false
	o := &op{}
	o.try = func() bool {
		p.CheckAndComplete("a")
		return met
	}
	submit(t, p, o, hour, "a")
	assert.EqualValues(t, 1+8, o.tries.Load(), "by its registration: before anybody can find it, and then")
	assert.Len(t, workers, 1, "the rest is left to a worker")
	o.tries.Store(0)
	p.CheckAndComplete("a")
	assert.EqualValues(t, 8, o.tries.Load())
	met = true
	workers[0]()
	ended(t, o, operation.Satisfied)
}

func TestASecondLookThatPanicsIsOneThatSaysNo(t *testing.T) {
	var told panics
	p := onManualClock[string](t, told.option())
	o := &op{}
	o.try = func() bool {
		switch n := o.tries.Load(); {
		case n == 2:
			p.CheckAndComplete("a") // asks for the look
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

func TestMarksLeftToARegistrationThatIsRefusedAreVoid(t *testing.T) {
	p := onManualClock[string](t)
	o := newHeldOp()
	proceed := o.holdInRegistration(p, 1, hour, "a")
	assert.False(t, p.Cancel(o, errGone))
	require.NoError(t, p.Close())
	_, err := proceed(false)
	require.ErrorIs(t, err, purgatory.ErrClosed)
	pending(t, &o.op)
	require.NoError(t, o.Cause())
	// It was not accepted: another purgatory may have it.
	other := onManualClock[string](t)
	o.try = nil
	submit(t, other, o, time.Second, "a")
	other.AdvanceClock(time.Second)
	ended(t, &o.op, operation.Expired)
}

func TestOnlyOneOfManySubmissionsIsAccepted(t *testing.T) {
	for range 200 {
		p, q := onManualClock[string](t), onManualClock[string](t)
		o := &op{}
		var accepted atomic.Int32
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				_, err := []*stringPurgatory{p, q}[i%2].TryCompleteElseWatch(o, time.Second, "a")
				if err == nil {
					accepted.Add(1)
				} else if !errors.Is(err, purgatory.ErrUsed) {
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		assert.EqualValues(t, 1, accepted.Load())
		p.AdvanceClock(time.Second)
		q.AdvanceClock(time.Second)
		ended(t, o, operation.Expired)
	}
}
