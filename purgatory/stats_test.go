package purgatory_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

func TestStatsHaveWaitsByOutcomeAndLateness(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithHistograms())
	_, err := p.TryCompleteElseWatch(&probe{ready: true}, time.Second, "a")
	require.NoError(t, err)
	satisfied := probed(t, p, time.Minute, "a", "b")
	cancelled := probed(t, p, time.Minute, "b")
	probed(t, p, 100*time.Millisecond, "c")
	probed(t, p, time.Hour, "d") // the oldest in the end

	p.AdvanceClock(3 * time.Millisecond)
	satisfied.ready = true
	assert.Equal(t, 1, p.CheckAndComplete("b"))
	p.AdvanceClock(time.Second)
	assert.True(t, p.Cancel(cancelled, errors.New("gone")))
	p.AdvanceClock(time.Minute)

	s := p.Stats()
	require.True(t, s.Timed)
	assert.EqualValues(t, 5, s.Accepted)
	assert.Equal(t, s.Accepted, s.Pending+s.Satisfied+s.Forced+s.Expired+s.Cancelled+s.Closed)
	for o := range s.Waited {
		if o := operation.Outcome(o); o != operation.Pending {
			assert.Equal(t, s.Ended(o), s.Waited[o].Count(), "%v", o)
		}
	}
	assert.EqualValues(t, 1, s.Waited[operation.Satisfied].Counts[0], "did not have to wait")
	assert.EqualValues(t, 1, s.Waited[operation.Satisfied].Counts[2], "3 ms lie in the bucket up to 4 ms")
	assert.InDelta(t, 0.003, s.Waited[operation.Satisfied].Sum, 1e-9)
	assert.Equal(t, 1024*time.Millisecond, s.Waited[operation.Cancelled].Quantile(0.5), "1.003 s")
	assert.Equal(t, 128*time.Millisecond, s.Waited[operation.Expired].Quantile(0.99))
	assert.EqualValues(t, 1, s.Late.Count())
	assert.EqualValues(t, 1, s.Late.Counts[0], "a manual clock is never late")

	const age = time.Minute + time.Second + 3*time.Millisecond
	assert.GreaterOrEqual(t, s.OldestAge, age)
	assert.LessOrEqual(t, s.OldestAge, age+age/16)
	assert.EqualValues(t, 1, s.Ages.Count())

	require.NoError(t, p.Close())
	s = p.Stats()
	assert.EqualValues(t, 1, s.Closed)
	assert.EqualValues(t, 5, s.Accepted)
}

func TestStatsWithoutHistogramsReadNoClock(t *testing.T) {
	p := onManualClock[string](t)
	probed(t, p, time.Second, "a")
	p.AdvanceClock(time.Minute)
	s := p.Stats()
	assert.False(t, s.Timed)
	assert.Zero(t, s.OldestAge)
	assert.Zero(t, s.Waited[operation.Expired].Count())
	assert.EqualValues(t, 1, s.Expired)
}

// What the first key's shard refuses was not accepted, and is in no count but that of the refused.
func TestStatsCountARefusedOperationOnlyAsRejected(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithHistograms(), purgatory.WithWatcherShards(2), purgatory.WithMaxPending(1))
	for _, key := range []string{"a", "b"} {
		p.Watchers().Shard(p.Watchers().Hash(key)) // in use before
	}
	p.Watchers().Close() // after the registration has looked whether the purgatory is closed
	for i := range 3 {
		op := &probe{ready: i == 1} // one would not have to wait
		_, err := p.TryCompleteElseWatch(op, time.Second, "a", "b")
		require.ErrorIs(t, err, purgatory.ErrClosed)
		assert.Equal(t, operation.Pending, op.Outcome())
		s := p.Stats()
		assert.Zero(t, s.Pending+s.Accepted+s.Closed)
		assert.Zero(t, s.Ages.Count())
		assert.EqualValues(t, i+1, s.RejectedClosed)
		other := onManualClock[string](t)
		op.ready = true
		completed, err := other.TryCompleteElseWatch(op, time.Second, "a")
		require.NoError(t, err, "it can be submitted again")
		assert.True(t, completed)
	}
}

// An operator reads it in a log or at a prompt. What is zero is left out, but for the
// numbers that everybody asks for.
func TestStatsStringLeavesOutZeros(t *testing.T) {
	assert.Equal(t, "pending 0 under 0 keys; accepted 0: 0 satisfied, 0 forced, 0 expired, 0 cancelled, 0 closed", purgatory.Stats{}.String())
	p := onManualClock[string](t, purgatory.WithHistograms(), purgatory.WithMaxPending(2))
	probed(t, p, time.Second, "a")
	p.AdvanceClock(2 * time.Second)
	probed(t, p, time.Minute, "a", "b")
	probed(t, p, time.Minute, "a")
	_, err := p.TryCompleteElseWatch(&probe{}, time.Minute, "a")
	require.ErrorIs(t, err, purgatory.ErrFull)
	assert.Regexp(t, `^pending 2 of 2 under 2 keys, oldest [\d.]+ms; accepted 3: 0 satisfied, 0 forced, 1 expired, 0 cancelled, 0 closed; `+
		`p99 lateness <= 125µs; rejected 1: 0 closed, 1 full, 0 input$`, fmt.Sprint(p.Stats()))

	s := purgatory.Stats{
		Pending: 1, Keys: 2, Timed: true, OldestAge: 61_234 * time.Millisecond, Accepted: 21, Satisfied: 3, Forced: 4, Expired: 5,
		Cancelled: 6, Closed: 7, Rejected: 33, RejectedClosed: 10, RejectedFull: 11, RejectedInput: 12, Running: 14, StuckCallbacks: 15,
		OldestRunning: 3_141_592_653, Due: 16, OldestDue: 2_718 * time.Microsecond, SlowCallbacks: 17, Panics: 18, ReaperStalls: 19, PassedOver: 20,
		BlockedFor: 2_345 * time.Millisecond,
	}
	s.Late = p.Stats().Late
	s.Late.Counts = [purgatory.HistogramBuckets]int64{purgatory.HistogramBuckets - 1: 1}
	assert.Equal(t, "pending 1 under 2 keys, oldest 1m1.2s; accepted 21: 3 satisfied, 4 forced, 5 expired, 6 cancelled, 7 closed; "+
		"p99 lateness > 8m44.288s; rejected 33: 10 closed, 11 full, 12 input; running 14, blocked for 2.35s, 15 stuck, oldest for 3.14s; "+
		"due 16, oldest for 2.72ms; slow callbacks 17; passed over 20; panics 18; reaper stalls 19", s.String())
	assert.NotContains(t, s.String(), "\n")
	s = purgatory.Stats{Running: 1}
	assert.Regexp(t, "; running 1$", s.String(), "without WithSlowCallback nothing is known of stuck callbacks")
	s = purgatory.Stats{Running: 1, BlockedFor: time.Second - 1}
	assert.Regexp(t, "; running 1$", s.String(), "a moment is not worth a word")
	s = purgatory.Stats{Due: 1, OldestDue: 10_009}
	assert.Regexp(t, "; due 1, oldest for 10µs$", s.String(), "three digits, or few more")
}

// Methods of a histogram work where it has no address: in a map, or as what a function
// returns.
func TestHistogramMethodsHaveValueReceivers(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithHistograms())
	probed(t, p, time.Second, "a")
	p.AdvanceClock(2 * time.Second)
	byName := map[string]purgatory.Stats{"fetch": p.Stats()}
	assert.Equal(t, 1024*time.Millisecond, byName["fetch"].Waited[operation.Expired].Quantile(0.5))
	assert.EqualValues(t, 1, p.Stats().Late.Count())
	assert.Equal(t, 125*time.Microsecond, p.Stats().Late.Bound(0))
	before := p.Stats().Late
	assert.Zero(t, p.Stats().Late.Since(&before).Count())
}

// While a check tries the operation of an AwaitRead, the reader may read and be satisfied.
func TestATryThatReturnsFalseIsWastedWhateverTheOutcome(t *testing.T) {
	p := onManualClock[string](t)
	op := probed(t, p, time.Hour, "a")
	op.while = func() { p.SatisfyNow(op) }
	require.Equal(t, 1, p.CheckAndComplete("a"))
	assert.Equal(t, operation.Satisfied, op.Outcome())
	s := p.Stats()
	assert.Equal(t, []int64{1, 1}, []int64{s.Checks, s.WastedChecks})
}

// TestWhatIsMeasuredIsSaid: a 0 that nobody has counted must be told from a 0 that was.
func TestWhatIsMeasuredIsSaid(t *testing.T) {
	for _, c := range []struct {
		opts  []purgatory.Option
		timed bool
	}{
		{nil, false},
		{[]purgatory.Option{purgatory.WithSlowCallback(0)}, false},
		{[]purgatory.Option{purgatory.WithSlowCallback(time.Second)}, true},
	} {
		s := onManualClock[string](t, c.opts...).Stats()
		assert.Equal(t, c.timed, s.CallbacksTimed)
	}
}

func TestKAFKA9198AMissingCheckShowsAsExpiries(t *testing.T) {
	// State changes and no goroutine calls CheckAndComplete. The counters show it: operations end
	// only by timeout, and no check has tried them.
	p := onManualClock[string](t)
	var met atomic.Bool
	for range 10 {
		submit(t, p, until(&met), time.Second, "a")
	}
	met.Store(true)
	p.AdvanceClock(time.Second)
	s := p.Stats()
	assert.EqualValues(t, 10, s.Expired)
	assert.Zero(t, s.Satisfied)
	assert.Zero(t, s.Checks)
}

// How long an operation has waited is known when it ends.
func TestWaitedSaysHowLongAnOperationHasWaited(t *testing.T) {
	p := onManualClock[string](t)
	o := &op{}
	var waited time.Duration
	o.complete = func() { waited = p.Waited(o) }
	submit(t, p, o, hour, "a")
	p.AdvanceClock(3 * time.Second)
	p.ForceComplete(o)
	assert.Equal(t, 3*time.Second, waited)
	assert.Zero(t, onManualClock[string](t).Waited(o), "in another purgatory")
	assert.Zero(t, p.Waited(nil))
}
