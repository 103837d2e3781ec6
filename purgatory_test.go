package purgatory_test

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// The contract, from outside: how an operation ends, what is refused, keys and counts.

var errGone = errors.New("the leader is gone")

func TestAnOperationEndsOnceWhateverEndsIt(t *testing.T) {
	var met atomic.Bool
	ways := map[operation.Outcome]func(p *stringPurgatory, o *op){
		operation.Satisfied: func(p *stringPurgatory, _ *op) {
			met.Store(true)
			assert.Equal(t, 1, p.CheckAndComplete("a"))
		},
		operation.Forced:    func(p *stringPurgatory, o *op) { assert.True(t, p.ForceComplete(o)) },
		operation.Expired:   func(p *stringPurgatory, _ *op) { assert.True(t, p.AdvanceClock(time.Second)) },
		operation.Cancelled: func(p *stringPurgatory, o *op) { assert.True(t, p.Cancel(o, errGone)) },
		operation.Closed:    func(p *stringPurgatory, _ *op) { assert.NoError(t, p.Close()) },
	}
	for first, end := range ways {
		t.Run(first.String(), func(t *testing.T) {
			met.Store(false)
			p := onManualClock[string](t)
			o := until(&met)
			var seen []operation.Outcome
			var cause error
			o.complete = func() { seen, cause = append(seen, o.Outcome()), o.Cause() }
			o.expire = func() { seen = append(seen, o.Outcome()) }
			submit(t, p, o, time.Second, "a", "b")
			pending(t, o)

			end(p, o)
			ended(t, o, first)
			wantCause := error(nil)
			if first == operation.Cancelled {
				wantCause = errGone
			}
			assert.Equal(t, wantCause, cause, "inside OnComplete")
			assert.Equal(t, wantCause, o.Cause(), "afterwards")
			for _, outcome := range seen {
				assert.Equal(t, first, outcome, "inside the callbacks")
			}

			// Nothing ends it a second time.
			met.Store(true)
			assert.Zero(t, p.CheckAndComplete("a"))
			assert.Zero(t, p.CancelForKey("b", errors.New("another")))
			assert.False(t, p.ForceComplete(o))
			assert.False(t, p.Cancel(o, errors.New("another")))
			assert.False(t, p.Extend(o, time.Second))
			p.AdvanceClock(hour)
			require.NoError(t, p.Close())
			ended(t, o, first)
			assert.Equal(t, wantCause, o.Cause())
			empty(t, p)
			s := conserved(t, p)
			assert.EqualValues(t, 1, s.Accepted)
			assert.EqualValues(t, 1, s.Ended(first))
		})
	}
}

func TestAnOperationWhoseConditionIsMetDoesNotWait(t *testing.T) {
	p := onManualClock[string](t)
	o := &op{try: func() bool { return true }}
	completed, err := p.TryCompleteElseWatch(o, hour, "a", "b")
	require.NoError(t, err)
	assert.True(t, completed)
	ended(t, o, operation.Satisfied)
	assert.EqualValues(t, 1, o.tries.Load())
	empty(t, p)
	assert.EqualValues(t, 1, conserved(t, p).Satisfied)
}

func TestOnExpirationRunsAfterOnComplete(t *testing.T) {
	p := onManualClock[string](t)
	var order []string
	o := &op{complete: func() { order = append(order, "complete") }, expire: func() { order = append(order, "expiration") }}
	submit(t, p, o, time.Second, "a")
	p.AdvanceClock(time.Second)
	assert.Equal(t, []string{"complete", "expiration"}, order)
}

func TestCallbacksOfACheckRunOnTheCallersGoroutineBeforeItReturns(t *testing.T) {
	p := onManualClock[string](t)
	var met atomic.Bool
	n := 0 // unguarded: the race detector knows who writes it
	for range 300 {
		o := until(&met)
		o.complete = func() { n++ }
		submit(t, p, o, hour, "a")
	}
	met.Store(true)
	assert.Equal(t, 300, p.CheckAndComplete("a"))
	assert.Equal(t, 300, n)
}

func TestWhatIsRefusedIsNotAcceptedAndNamesWhatWasWrong(t *testing.T) {
	var typedNil *op
	tests := map[string]struct {
		op   operation.Operation
		keys []string
		opts []purgatory.Option
		prep func(p *stringPurgatory, o operation.Operation)
		want error
		says []string
	}{
		"nil operation": {op: nil, keys: []string{"a"}, want: purgatory.ErrNilOperation, says: []string{"<nil>"}},
		"typed nil":     {op: typedNil, keys: []string{"a"}, want: purgatory.ErrNilOperation, says: []string{"*purgatory_test.op"}},
		"no keys":       {op: &op{}, want: purgatory.ErrNoKeys, says: []string{"*purgatory_test.op"}},
		"too many keys": {op: &op{}, keys: make([]string, operation.MaxKeys+1), want: purgatory.ErrTooManyKeys, says: []string{"65537", "65536"}},
		"used": {
			op: &op{}, keys: []string{"a"}, want: purgatory.ErrUsed, says: []string{"*purgatory_test.op"},
			prep: func(p *stringPurgatory, o operation.Operation) {
				_, _ = p.TryCompleteElseWatch(o, hour, "a")
				p.ForceComplete(o)
			},
		},
		"still waiting": {
			op: &op{}, keys: []string{"b"}, want: purgatory.ErrUsed, says: []string{"*purgatory_test.op"},
			prep: func(p *stringPurgatory, o operation.Operation) { _, _ = p.TryCompleteElseWatch(o, hour, "a") },
		},
		"closed": {
			op: &op{}, keys: []string{"a"}, want: purgatory.ErrClosed, says: []string{"*purgatory_test.op"},
			prep: func(p *stringPurgatory, _ operation.Operation) { _ = p.Close() },
		},
		"full": {
			op: &op{}, keys: []string{"a"}, want: purgatory.ErrFull, says: []string{"2 operations"},
			opts: []purgatory.Option{purgatory.WithMaxPending(2)},
			prep: func(p *stringPurgatory, _ operation.Operation) {
				_, _ = p.TryCompleteElseWatch(&op{}, hour, "a")
				_, _ = p.TryCompleteElseWatch(&op{}, hour, "b")
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, test.opts...)
			if test.prep != nil {
				test.prep(p, test.op)
			}
			before := p.Stats()
			o, _ := test.op.(*op)
			callbacks := int32(0)
			if o != nil {
				callbacks = o.completed.Load()
			}
			completed, err := p.TryCompleteElseWatch(test.op, 0, test.keys...)
			assert.False(t, completed)
			require.ErrorIs(t, err, test.want)
			for _, part := range append(test.says, `"test"`) {
				assert.ErrorContains(t, err, part)
			}
			after := p.Stats()
			assert.Equal(t, before.Accepted, after.Accepted)
			assert.Equal(t, before.Pending, after.Pending)
			assert.Equal(t, before.Rejected+1, after.Rejected)
			p.AdvanceClock(time.Minute)
			if o != nil {
				assert.Equal(t, callbacks, o.completed.Load(), "no callback")
				assert.Zero(t, o.expired.Load(), "no callback")
			}
		})
	}
}

func TestTheVerbsSayNoToWhatWasNeverAccepted(t *testing.T) {
	p := onManualClock[string](t)
	var typedNil *op
	for _, o := range []operation.Operation{nil, typedNil, &op{}} {
		assert.False(t, p.ForceComplete(o))
		assert.False(t, p.Cancel(o, errGone))
		assert.False(t, p.Extend(o, hour))
	}
	assert.Zero(t, p.CheckAndComplete("nobody"))
	assert.Zero(t, p.CheckAndCompleteUpTo("nobody", 7))
	assert.Zero(t, p.CancelForKey("nobody", errGone))
	p.Signal("nobody")
	p.SignalUpTo("nobody", 7)
	empty(t, p)
}

func TestARefusedOperationMayBeSubmittedElsewhere(t *testing.T) {
	full := onManualClock[string](t, purgatory.WithMaxPending(1))
	submitted(t, full, "a")
	o := &op{}
	_, err := full.TryCompleteElseWatch(o, hour, "a")
	require.ErrorIs(t, err, purgatory.ErrFull)
	other := onManualClock[string](t)
	submit(t, other, o, time.Second, "a")
	other.AdvanceClock(time.Second)
	ended(t, o, operation.Expired)
}

func TestOptionsOutOfRangeAreErrors(t *testing.T) {
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	tests := map[string]struct {
		opts []purgatory.Option
		says string
	}{
		"nil option":            {[]purgatory.Option{nil}, "nil Option"},
		"tick":                  {[]purgatory.Option{purgatory.WithTick(0)}, "0s"},
		"wheel size":            {[]purgatory.Option{purgatory.WithWheelSize(1)}, "1"},
		"timer shards":          {[]purgatory.Option{purgatory.WithTimerShards(3)}, "3"},
		"watcher shards, none":  {[]purgatory.Option{purgatory.WithWatcherShards(0)}, "0"},
		"watcher shards, odd":   {[]purgatory.Option{purgatory.WithWatcherShards(12)}, "12"},
		"watcher shards, many":  {[]purgatory.Option{purgatory.WithWatcherShards(1 << 17)}, "131072"},
		"purge interval":        {[]purgatory.Option{purgatory.WithPurgeInterval(-1)}, "-1"},
		"reap interval":         {[]purgatory.Option{purgatory.WithReapInterval(0)}, "0s"},
		"workers":               {[]purgatory.Option{purgatory.WithExpiryWorkers(0)}, "0"},
		"maximum":               {[]purgatory.Option{purgatory.WithMaxPending(-3)}, "-3"},
		"panic handler":         {[]purgatory.Option{purgatory.WithPanicHandler(nil)}, "panic handler"},
		"logger":                {[]purgatory.Option{purgatory.WithLogger(nil)}, "logger"},
		"timer with tick":       {[]purgatory.Option{purgatory.WithTimer(clock), purgatory.WithTick(time.Second)}, "injected"},
		"timer that is nil":     {[]purgatory.Option{purgatory.WithTimer((*timer.SystemTimer)(nil))}, "*timer.SystemTimer"},
		"hand-held that is nil": {[]purgatory.Option{purgatory.WithTimer((*timer.ManualTimer)(nil))}, "*timer.ManualTimer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := purgatory.New[string]("test", test.opts...)
			assert.Nil(t, p)
			require.ErrorIs(t, err, purgatory.ErrInvalidOption)
			assert.ErrorContains(t, err, test.says)
		})
	}
}

func TestOptionsAtTheirEdgesWork(t *testing.T) {
	for name, opts := range map[string][]purgatory.Option{
		"smallest": {
			purgatory.WithTick(1), purgatory.WithWheelSize(2), purgatory.WithTimerShards(1), purgatory.WithWatcherShards(1),
			purgatory.WithPurgeInterval(0), purgatory.WithReapInterval(time.Millisecond), purgatory.WithExpiryWorkers(1), purgatory.WithMaxPending(1),
		},
		"large": {
			purgatory.WithTick(hour), purgatory.WithWheelSize(1 << 12), purgatory.WithTimerShards(64), purgatory.WithWatcherShards(1 << 16),
			purgatory.WithPurgeInterval(math.MaxInt), purgatory.WithReapInterval(hour), purgatory.WithExpiryWorkers(math.MaxInt), purgatory.WithMaxPending(math.MaxInt),
		},
		"nil executor, nil timer": {purgatory.WithExecutor(nil), purgatory.WithTimer(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			p := open[string](t, opts...)
			var met atomic.Bool
			o := until(&met)
			submit(t, p, o, hour, "a", "b")
			met.Store(true)
			p.Signal("b")
			eventually(t, func() bool { return o.completed.Load() == 1 }, "the check of a signalled key")
			ended(t, o, operation.Satisfied)
			expiring := &op{}
			submit(t, p, expiring, 0, "a")
			eventually(t, func() bool { return expiring.expired.Load() == 1 }, "expiry at once")
		})
	}
}

func TestOperationsOfAKeyAreTriedInTheOrderInWhichTheyWereWatched(t *testing.T) {
	p := onManualClock[string](t)
	var tried, completed []int
	checking := false
	for i := range 1000 { // several batches
		o := &op{}
		o.try = func() bool {
			if checking {
				tried = append(tried, i)
			}
			return checking && i%3 == 0
		}
		o.complete = func() { completed = append(completed, i) }
		submit(t, p, o, hour, "a")
	}
	checking = true
	assert.Equal(t, 334, p.CheckAndComplete("a"))
	require.Len(t, tried, 1000)
	assert.True(t, slices.IsSorted(tried))
	require.Len(t, completed, 334)
	assert.True(t, slices.IsSorted(completed))
}

func TestAnEndedOperationLeavesAllItsListsAtOnce(t *testing.T) {
	p := onManualClock[int](t)
	keys := make([]int, 500) // over all shards
	for i := range keys {
		keys[i] = i
	}
	o := submitted(t, p, keys...)
	stays := submitted(t, p, 7)
	assert.Equal(t, 2, p.NumDelayed())
	assert.Equal(t, 501, p.Watched())
	assert.Equal(t, 500, p.Keys())
	require.True(t, p.ForceComplete(o))
	assert.Equal(t, 1, p.NumDelayed(), "without a purge")
	assert.Equal(t, 1, p.Watched(), "without a purge")
	assert.Equal(t, 1, p.Keys(), "without a purge")
	pending(t, stays)
}

func TestWatchedCountsEntriesAndNumDelayedOperations(t *testing.T) {
	p := onManualClock[string](t)
	a, b := submitted(t, p, "x"), submitted(t, p, "x", "y", "z")
	c := submitted(t, p, "x", "x") // the same key twice: two entries
	assert.Equal(t, []int{3, 6, 3}, []int{p.NumDelayed(), p.Watched(), p.Keys()})
	p.ForceComplete(b)
	assert.Equal(t, []int{2, 3, 1}, []int{p.NumDelayed(), p.Watched(), p.Keys()})
	p.ForceComplete(c)
	p.ForceComplete(a)
	assert.Equal(t, []int{0, 0, 0}, []int{p.NumDelayed(), p.Watched(), p.Keys()})
}

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

func TestCancelForKeyEndsThoseOfTheKeyAndNoOthers(t *testing.T) {
	p := onManualClock[string](t)
	here, alsoHere, elsewhere := submitted(t, p, "a"), submitted(t, p, "b", "a"), submitted(t, p, "b")
	assert.Equal(t, 2, p.CancelForKey("a", errGone))
	for _, o := range []*op{here, alsoHere} {
		ended(t, o, operation.Cancelled)
		assert.Equal(t, errGone, o.Cause())
	}
	pending(t, elsewhere)
	require.NoError(t, elsewhere.Cause())
	assert.Equal(t, 1, p.CancelForKey("b", nil))
	ended(t, elsewhere, operation.Cancelled)
	assert.NoError(t, elsewhere.Cause(), "cancelled without a cause")
}

func TestAKeyThatEqualsNothingStillExpiresAndLeaves(t *testing.T) {
	p := onManualClock[float64](t)
	nan := math.NaN()
	var met atomic.Bool
	expiring, checked, cancelled := &op{}, until(&met), &op{}
	submit(t, p, expiring, time.Second, nan)
	submit(t, p, checked, hour, nan, 1, nan, nan, nan, nan)
	submit(t, p, cancelled, hour, nan)
	assert.Equal(t, []int{3, 8, 8}, []int{p.NumDelayed(), p.Watched(), p.Keys()})
	assert.Zero(t, p.CheckAndComplete(nan))
	assert.Zero(t, p.CancelForKey(nan, errGone))
	p.AdvanceClock(time.Second)
	ended(t, expiring, operation.Expired)
	met.Store(true)
	assert.Equal(t, 1, p.CheckAndComplete(1), "found under the key that can be found")
	assert.True(t, p.Cancel(cancelled, errGone))
	empty(t, p)
}

func TestAKeyThatCannotBeHashedPanicsAsAMapDoesAndNothingIsLost(t *testing.T) {
	p := onManualClock[any](t, purgatory.WithMaxPending(1))
	o, bad := &op{}, []int{1}
	assert.Panics(t, func() { _, _ = p.TryCompleteElseWatch(o, hour, "a", bad) })
	assert.Panics(t, func() { _, _ = p.TryCompleteElseWatch(o, hour, 1, 2, 3, 4, 5, bad) })
	assert.Panics(t, func() { p.CheckAndComplete(bad) })
	assert.Panics(t, func() { p.Signal(bad) })
	assert.Panics(t, func() { p.CancelForKey(bad, nil) })
	empty(t, p)
	submit[any](t, p, o, hour, "a", 7, struct{ x int }{1}) // unused, and the place is free
	assert.Equal(t, 1, p.CancelForKey(struct{ x int }{1}, nil))
}

func TestManyKeysOfOneOperation(t *testing.T) {
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

func TestMaxPendingIsABoundAndEveryEndMakesRoom(t *testing.T) {
	const most = 3
	p := onManualClock[string](t, purgatory.WithMaxPending(most))
	var met atomic.Bool
	for round := range 20 {
		met.Store(false)
		var ops []*op
		for range most {
			o := until(&met)
			submit(t, p, o, time.Second, "a", "b")
			ops = append(ops, o)
		}
		_, err := p.TryCompleteElseWatch(&op{}, hour, "a")
		require.ErrorIs(t, err, purgatory.ErrFull)
		switch round % 5 {
		case 0:
			met.Store(true)
			assert.Equal(t, most, p.CheckAndComplete("b"))
		case 1:
			for _, o := range ops {
				assert.True(t, p.ForceComplete(o))
			}
		case 2:
			assert.Equal(t, most, p.CancelForKey("a", errGone))
		case 3:
			p.AdvanceClock(time.Second)
		case 4: // what is satisfied at once needs room for a moment only
			p.ForceComplete(ops[0])
			for range 10 {
				completed, err := p.TryCompleteElseWatch(&op{try: func() bool { return true }}, hour, "a")
				require.NoError(t, err)
				require.True(t, completed)
			}
			p.CancelForKey("a", nil)
		}
		empty(t, p)
	}
	// There is room when the callback runs.
	next, completed := &op{}, submitted(t, p, "a")
	submitted(t, p, "a")
	submitted(t, p, "a")
	completed.complete = func() { submit(t, p, next, hour, "a") }
	assert.True(t, p.ForceComplete(completed))
	pending(t, next)
}

func TestPrintedOutcomes(t *testing.T) {
	var all []string
	for o := range operation.Outcome(operation.Outcomes) {
		all = append(all, o.String())
	}
	assert.Equal(t, []string{"pending", "satisfied", "forced", "expired", "cancelled", "closed"}, all)
	assert.Equal(t, "Outcome(77)", operation.Outcome(77).String())
}
