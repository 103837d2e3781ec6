package purgatory_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
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

// Stats.Accepted is a counter and never decreases. A refusal changes no other count.
func TestARefusalChangesOnlyTheCountOfRefusals(t *testing.T) {
	clock, err := timer.NewManualTimer(timer.WithMaxPending(1))
	require.NoError(t, err)
	p := open[string](t, purgatory.WithTimer(clock), purgatory.WithMaxPending(2), purgatory.WithDiagnostics())
	first := submitted(t, p, "a")
	o := &op{}
	_, err = p.TryCompleteElseWatch(o, hour, "a", "b")
	require.ErrorIs(t, err, purgatory.ErrFull)
	assert.EqualValues(t, 1, p.Stats().Accepted)
	assert.EqualValues(t, 1, p.Stats().Watched)
	_, err = p.TryCompleteElseWatch(first, hour, "a")
	require.ErrorIs(t, err, purgatory.ErrUsed)
	_, err = p.TryCompleteElseWatch(&op{}, hour)
	require.ErrorIs(t, err, purgatory.ErrNoKeys)
	assert.True(t, p.ForceComplete(first))
	_, err = p.TryCompleteElseWatch(o, hour, "a", "b")
	require.ErrorIs(t, err, purgatory.ErrUsed, "it was refused")
	assert.True(t, p.ForceComplete(submitted(t, p, "a", "b")))
	require.NoError(t, p.Await(t.Context(), hour, func() bool { return true }, "a"))
	require.ErrorIs(t, p.Await(t.Context(), 0, func() bool { return false }, "a"), purgatory.ErrExpired)
	require.ErrorIs(t, p.Await(t.Context(), hour, nil, "a"), purgatory.ErrNilOperation)
	_, err = p.TryCompleteElseWatch(&op{try: func() bool { return p.Close() == nil }}, hour, "a") // met, and too late
	require.ErrorIs(t, err, purgatory.ErrClosed)
	_, err = p.TryCompleteElseWatch(&op{}, hour, "a")
	require.ErrorIs(t, err, purgatory.ErrClosed)
	s := conserved(t, p)
	assert.EqualValues(t, 4, s.Accepted)
	assert.EqualValues(t, 1, s.Satisfied)
	assert.EqualValues(t, 1, s.Expired)
	for o := operation.Satisfied; o <= operation.Closed; o++ {
		assert.Equal(t, s.Ended(o), s.Waited[o].Count(), o)
	}
	assert.Equal(t, []int64{0, 0, 0, 0}, []int64{s.Pending, s.Checks, s.Signals, s.PassedOver})
	assert.Equal(t, []int64{7, 1, 2, 4}, []int64{s.Rejected, s.RejectedFull, s.RejectedClosed, s.RejectedInput})
}

func TestErrorsNameThePurgatoryOnce(t *testing.T) {
	p := onManualClock[int](t)
	err := p.Await(t.Context(), 0, func() bool { return false }, 1)
	assert.EqualError(t, err, `purgatory "test": timed out: after 0s`)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout())
	assert.True(t, timeout.Temporary(), "as that of context.DeadlineExceeded") //nolint:staticcheck // deprecated, and part of net.Error
	require.NoError(t, p.Close())
	assert.EqualError(t, p.Await(t.Context(), hour, func() bool { return false }, 1), `purgatory "test": closed: Await`)
}

func TestMethodsReturnFalseForAnUnacceptedOperation(t *testing.T) {
	p := onManualClock[string](t)
	assert.False(t, p.ForceComplete(&op{}))
	assert.False(t, p.Cancel(&op{}, errGone))
	assert.False(t, p.Extend(&op{}, hour))
	assert.Panics(t, func() { p.ForceComplete(nil) }, "as a method of it would")
	assert.Zero(t, p.CheckAndComplete("nobody"))
	assert.Zero(t, p.CheckAndCompleteUpTo("nobody", 7))
	assert.Zero(t, p.CancelForKey("nobody", errGone))
	p.Signal("nobody")
	p.SignalUpTo("nobody", 7)
	empty(t, p)
}

// An error that wraps one of the package's errors matches no other one. ErrExpired also
// matches context.DeadlineExceeded.
func TestEachErrorMatchesOnlyItself(t *testing.T) {
	const expired = 7 // the index of ErrExpired; context.DeadlineExceeded follows
	all := []error{
		purgatory.ErrClosed, purgatory.ErrFull, purgatory.ErrNoKeys, purgatory.ErrNilOperation,
		purgatory.ErrUsed, purgatory.ErrInvalidOption, purgatory.ErrCancelled, purgatory.ErrExpired, context.DeadlineExceeded, context.Canceled,
	}
	for i, err := range all {
		for j, other := range all {
			want := i == j || i == expired && j == expired+1
			assert.Equal(t, want, errors.Is(fmt.Errorf("wrapped: %w", err), other), "%v is %v", err, other)
		}
	}
}

// An operation is used once, also one that was refused, whenever that was. It has no outcome, no callback runs, and nothing refers to
// it: neither a list, nor the timer, nor the cause of a cancellation.
func TestARefusedOperationIsUsed(t *testing.T) {
	full, fullKey := []purgatory.Option{purgatory.WithMaxPending(1)}, []purgatory.Option{purgatory.WithMaxPendingPerKey(1)}
	for name, c := range map[string]struct {
		opts []purgatory.Option
		in   func(p *stringPurgatory, o *op) bool // the first try
		want error
	}{
		"full":               {full, nil, purgatory.ErrFull},
		"its key is full":    {fullKey, nil, purgatory.ErrFull},
		"closed, saying no":  {nil, func(p *stringPurgatory, _ *op) bool { return p.Close() != nil }, purgatory.ErrClosed},
		"closed, saying yes": {nil, func(p *stringPurgatory, _ *op) bool { return p.Close() == nil }, purgatory.ErrClosed},
		"cancelled before": {full, func(p *stringPurgatory, o *op) bool {
			assert.False(t, p.Cancel(o, errGone))
			return false
		}, purgatory.ErrFull},
	} {
		t.Run(name, func(t *testing.T) {
			clock, err := timer.NewManualTimer()
			require.NoError(t, err)
			p := open[string](t, append(c.opts, purgatory.WithTimer(clock))...)
			submitted(t, p, "a")
			o := &op{}
			o.try = func() bool { return c.in != nil && c.in(p, o) }
			completed, err := p.TryCompleteElseWatch(o, time.Second, "a")
			require.ErrorIs(t, err, c.want)
			assert.False(t, completed)
			assert.Zero(t, p.Causes())
			assert.Equal(t, p.NumDelayed(), clock.Pending())
			clock.AdvanceClock(time.Second)
			for _, q := range []*stringPurgatory{p, onManualClock[string](t)} {
				assert.False(t, q.ForceComplete(o))
				assert.False(t, q.Extend(o, hour))
				_, err = q.TryCompleteElseWatch(o, hour, "b")
				if !q.Closed() {
					require.ErrorIs(t, err, purgatory.ErrUsed)
				}
			}
			pending(t, o)
			require.NoError(t, o.Cause())
			assert.EqualValues(t, 1, o.tries.Load())
		})
	}
}

// A method that is given an operation of another purgatory changes nothing in either
// purgatory, whether they share a timer or not.
func TestOperationsOfAnotherPurgatoryAreRefused(t *testing.T) {
	shared, err := timer.NewManualTimer(timer.WithMaxPending(100))
	require.NoError(t, err)
	for name, clocks := range map[string][2]purgatory.Option{
		"timers of their own": {purgatory.WithWatcherShards(1), purgatory.WithWatcherShards(64)},
		"one timer":           {purgatory.WithTimer(shared), purgatory.WithTimer(shared)},
	} {
		t.Run(name, func(t *testing.T) {
			produce := open[int](t, clocks[0])
			fetch := open[string](t, clocks[1])
			o := submitted(t, produce, 1, 2, 3)
			for range 3 {
				assert.False(t, fetch.Extend(o, time.Nanosecond))
				assert.False(t, fetch.Extend(o, 2*hour))
				assert.False(t, fetch.Cancel(o, errGone))
				assert.False(t, fetch.ForceComplete(o))
				_, err := fetch.TryCompleteElseWatch(o, time.Nanosecond, "a", "b")
				assert.ErrorIs(t, err, purgatory.ErrUsed)
			}
			o.try = func() bool { // held
				assert.False(t, fetch.ForceComplete(o))
				assert.False(t, fetch.Cancel(o, errGone))
				return false
			}
			assert.Zero(t, produce.CheckAndComplete(1))
			pending(t, o)
			empty(t, fetch)
			assert.True(t, produce.Extend(o, hour))
			assert.True(t, produce.Cancel(o, errGone))
			ended(t, o, operation.Cancelled)
			assert.Equal(t, errGone, o.Cause())
			for _, p := range []interface{ Close() error }{produce, fetch} {
				require.NoError(t, p.Close())
			}
		})
	}
}

// Whoever has seen that the only pending operation has ended finds a place for the next one,
// however that has ended: in the purgatory, and in its timer.
func TestAnOperationThatHasEndedTakesNoPlace(t *testing.T) {
	clock, err := timer.NewSystemTimer(timer.WithMaxPending(1))
	require.NoError(t, err)
	for name, bound := range map[string][]purgatory.Option{
		"of the purgatory": {purgatory.WithoutReaper(), purgatory.WithMaxPending(1)},
		"of the timer":     {purgatory.WithoutReaper(), purgatory.WithTimer(clock)},
	} {
		t.Run(name, func(t *testing.T) { endedTakesNoPlace(t, bound) })
	}
}

func endedTakesNoPlace(t *testing.T, bound []purgatory.Option) {
	p := open[int](t, bound...)
	var last atomic.Pointer[op]
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !stop.Load(); i++ {
			o := last.Swap(nil)
			switch {
			case o == nil:
				runtime.Gosched()
			case i%3 == 0:
				p.ForceComplete(o)
			case i%3 == 1:
				p.CancelForKey(1, nil)
			default:
				p.Cancel(o, nil)
			}
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	for range howMany(20_000, 7000) {
		o := &op{}
		if _, err := p.TryCompleteElseWatch(o, hour, 1); !assert.NoError(t, err) {
			return
		}
		last.Store(o)
		for o.Outcome() == operation.Pending {
			if last.Load() == o {
				runtime.Gosched()
			}
		}
	}
}

// A used operation is refused as used, not as one too many, and counts against no maximum. See KAFKA-18027.
func TestAUsedOperationTakesNoPlace(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithMaxPending(2))
	used := submitted(t, p, "a")
	for _, pending := range []int{1, 2} {
		for range 5 {
			_, err := p.TryCompleteElseWatch(used, hour, "a")
			require.ErrorIs(t, err, purgatory.ErrUsed)
		}
		require.Equal(t, pending, p.NumDelayed())
		if pending < 2 {
			submitted(t, p, "a")
		}
	}
	_, err := p.TryCompleteElseWatch(&op{}, hour, "a")
	require.ErrorIs(t, err, purgatory.ErrFull)
	require.True(t, p.ForceComplete(used))
	_, err = p.TryCompleteElseWatch(used, hour, "a")
	require.ErrorIs(t, err, purgatory.ErrUsed)
	p.AdvanceClock(hour)
	ended(t, used, operation.Forced)
}

func TestARefusalByTheTimerGivesThePlaceBack(t *testing.T) {
	clock, err := timer.NewManualTimer(timer.WithMaxPending(1))
	require.NoError(t, err)
	p, err := purgatory.New[string]("test", purgatory.WithTimer(clock), purgatory.WithMaxPending(1))
	require.NoError(t, err)
	defer p.Close()
	other, err := clock.AfterFunc(time.Hour, func() {})
	require.NoError(t, err)
	_, err = p.TryCompleteElseWatch(&probe{}, time.Hour, "a")
	require.ErrorIs(t, err, timer.ErrFull)
	assert.EqualValues(t, 1, p.Stats().Rejected)
	require.True(t, other.Stop())
	probed(t, p, time.Hour, "a")
}
