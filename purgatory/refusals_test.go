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
	p := open[string](t, purgatory.WithTimer(clock), purgatory.WithMaxPending(2), purgatory.WithHistograms())
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
	submit(t, p, o, hour, "a", "b") // the purgatory was full, and o can be submitted again
	assert.True(t, p.ForceComplete(o))
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
	assert.Equal(t, []int64{6, 1, 2, 3}, []int64{s.Rejected, s.RejectedFull, s.RejectedClosed, s.RejectedInput})
}

// A used operation is refused as used, and counts against no maximum.
func TestUsedOperationsTakeNoPlaceUnderRace(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithMaxPending(2))
	used := submitted(t, p, 1)
	var wg sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				_, err := p.TryCompleteElseWatch(used, hour, 1)
				assert.ErrorIs(t, err, purgatory.ErrUsed)
			}
		})
	}
	for range 3000 {
		o := &op{}
		if _, err := p.TryCompleteElseWatch(o, hour, 1); !assert.NoError(t, err) {
			break
		}
		assert.True(t, p.ForceComplete(o))
	}
	stop.Store(true)
	wg.Wait()
}

type embedsNothing struct{ *operation.DelayedOperation }

func (embedsNothing) TryComplete() bool { return true }
func (embedsNothing) OnComplete()       {}
func (embedsNothing) OnExpiration()     {}

func TestAnOperationThatEmbedsANilPointerIsRefused(t *testing.T) {
	p := onManualClock[int](t)
	_, err := p.TryCompleteElseWatch(embedsNothing{}, hour, 1)
	require.ErrorIs(t, err, purgatory.ErrNilOperation)
	assert.ErrorContains(t, err, "embedsNothing")
	_, err = p.TryCompleteElseWatch(&embedsNothing{}, hour, 1)
	require.ErrorIs(t, err, purgatory.ErrNilOperation)
	assert.False(t, p.Cancel(embedsNothing{}, nil))
	assert.False(t, p.ForceComplete(nil))
	assert.False(t, p.Extend((*op)(nil), hour))
	completed, err := p.TryCompleteElseWatch(embedsNothing{new(operation.DelayedOperation)}, hour, 1)
	require.NoError(t, err)
	assert.True(t, completed)
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

func TestTheErrorOfARefusalSaysWhatWasWrong(t *testing.T) {
	var typedNil *op
	tests := map[string]struct {
		op   operation.Operation
		keys []string
		opts []purgatory.Option
		prep func(p *stringPurgatory, o operation.Operation)
		want error
		says []string
	}{
		"nil operation": {op: nil, keys: []string{"a"}, want: purgatory.ErrNilOperation, says: []string{"the operation is nil"}},
		"typed nil":     {op: typedNil, keys: []string{"a"}, want: purgatory.ErrNilOperation, says: []string{"*purgatory_test.op"}},
		"no keys":       {op: &op{}, want: purgatory.ErrNoKeys, says: []string{"*purgatory_test.op"}},
		"too many keys": {op: &op{}, keys: make([]string, operation.MaxKeys+1), want: purgatory.ErrTooManyKeys, says: []string{"65537", "65536"}},
		"used": { // KAFKA-18027
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
			assert.NotContains(t, err.Error(), "another purgatory")
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

func TestMethodsReturnFalseForAnUnacceptedOperation(t *testing.T) {
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

// So may one whose condition is met by the try in which the purgatory closes.
func TestAMetOperationOfAClosingPurgatoryMayBeSubmittedElsewhere(t *testing.T) {
	p, other := onManualClock[string](t), onManualClock[string](t)
	o := &op{}
	o.try = func() bool { return o.tries.Load() == 1 && p.Close() == nil }
	completed, err := p.TryCompleteElseWatch(o, hour, "a")
	require.ErrorIs(t, err, purgatory.ErrClosed)
	assert.False(t, completed)
	pending(t, o)
	submit(t, other, o, time.Second, "a")
	other.AdvanceClock(time.Second)
	ended(t, o, operation.Expired)
}

func TestMaxPendingBoundsAndEveryOutcomeMakesRoom(t *testing.T) {
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
		case 4: // an operation whose condition is met at once is pending for a moment only
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
	// When the callback runs, another operation is accepted.
	next, completed := &op{}, submitted(t, p, "a")
	submitted(t, p, "a")
	submitted(t, p, "a")
	completed.complete = func() { submit(t, p, next, hour, "a") }
	assert.True(t, p.ForceComplete(completed))
	pending(t, next)
}

// An error that wraps one of the package's errors matches no other one. ErrExpired also
// matches context.DeadlineExceeded.
func TestEachErrorMatchesOnlyItself(t *testing.T) {
	const expired = 8 // the index of ErrExpired; context.DeadlineExceeded follows
	all := []error{
		purgatory.ErrClosed, purgatory.ErrFull, purgatory.ErrNoKeys, purgatory.ErrTooManyKeys, purgatory.ErrNilOperation,
		purgatory.ErrUsed, purgatory.ErrInvalidOption, purgatory.ErrCancelled, purgatory.ErrExpired, context.DeadlineExceeded, context.Canceled,
	}
	for i, err := range all {
		for j, other := range all {
			want := i == j || i == expired && j == expired+1
			assert.Equal(t, want, errors.Is(fmt.Errorf("wrapped: %w", err), other), "%v is %v", err, other)
		}
	}
}

// thenTimer calls a function after each addition.
type thenTimer struct {
	*timer.SystemTimer
	then func()
}

func (t *thenTimer) AddAt(task *timer.TaskEntry, now, deadline time.Duration) error {
	err := t.SystemTimer.AddAt(task, now, deadline)
	t.then()
	return err
}

// An operation that is refused because Close comes while it is registered, after Close has stopped
// the timer, can be submitted again.
func TestAnOperationThatCloseRefusesIsAsNew(t *testing.T) {
	p, err := purgatory.New[int](t.Name())
	require.NoError(t, err)
	p.SetTimer(&thenTimer{p.OwnTimer(), func() { _ = p.Close() }})
	o := &op{}
	_, err = p.TryCompleteElseWatch(o, time.Hour, 1)
	require.ErrorIs(t, err, purgatory.ErrClosed)

	other, err := purgatory.New[int]("other")
	require.NoError(t, err)
	defer other.Close()
	_, err = other.TryCompleteElseWatch(o, time.Hour, 1)
	assert.NoError(t, err)
}

// A worker of the timer that has claimed the entry of an operation may still use it when the key turns out to be full: the
// operation that is refused then cannot be submitted again. One whose timeout is still to come can.
func TestARefusedOperationWhoseTimeoutIsUnderWayIsUsed(t *testing.T) {
	for _, expires := range []bool{false, true} {
		p := open[int](t, purgatory.WithMaxPendingPerKey(1), purgatory.WithoutReaper())
		submitted(t, p, 1)
		o := &op{}
		p.SetTimer(&thenTimer{p.OwnTimer(), func() {
			if expires {
				eventually(t, p.OwnTimer().Idle, "a worker finds the operation held")
			}
		}})
		timeout := hour
		if expires {
			timeout = 0
		}
		_, err := p.TryCompleteElseWatch(o, timeout, 1)
		require.ErrorIs(t, err, purgatory.ErrFull)
		assert.Zero(t, o.completed.Load()+o.expired.Load(), "no callback has run")

		_, err = open[int](t).TryCompleteElseWatch(o, hour, 1)
		if expires {
			require.ErrorIs(t, err, purgatory.ErrUsed)
		} else {
			require.NoError(t, err)
		}
	}
}

// An operation that was refused after it had been in the timer is as new to another purgatory's: one without a timeout gets
// its first deadline there.
func TestARefusedOperationGetsADeadlineElsewhere(t *testing.T) {
	p, other := onManualClock[int](t, purgatory.WithMaxPendingPerKey(1)), onManualClock[int](t)
	submitted(t, p, 1)
	o := &op{}
	_, err := p.TryCompleteElseWatch(o, hour, 1)
	require.ErrorIs(t, err, purgatory.ErrFull)
	submit(t, other, o, purgatory.NoTimeout, 1)
	require.True(t, other.Extend(o, time.Second))
	other.AdvanceClock(time.Second)
	ended(t, o, operation.Expired)
}

// An operation that was refused is as new also if another type that embeds the same
// DelayedOperation submits it: its methods are called, and no other's.
func TestARefusedOperationIsSubmittedByAnotherType(t *testing.T) {
	closed, err := purgatory.New[int](t.Name(), purgatory.WithMaxPending(1))
	require.NoError(t, err)
	defer closed.Close()
	_, err = closed.TryCompleteElseWatch(&op{}, time.Hour, 1)
	require.NoError(t, err)
	part := new(operation.DelayedOperation)
	first, second := &sharedOp{DelayedOperation: part}, &sharedOp{DelayedOperation: part}
	_, err = closed.TryCompleteElseWatch(first, time.Hour, 1)
	require.ErrorIs(t, err, purgatory.ErrFull)

	other, err := purgatory.New[int]("other")
	require.NoError(t, err)
	defer other.Close()
	_, err = other.TryCompleteElseWatch(second, time.Hour, 1)
	require.NoError(t, err)
	other.ForceComplete(second)
	assert.Zero(t, first.completed)
	assert.Equal(t, 1, second.completed)
}

type sharedOp struct {
	*operation.DelayedOperation
	completed int
}

func (*sharedOp) TryComplete() bool { return false }
func (s *sharedOp) OnComplete()     { s.completed++ }
func (*sharedOp) OnExpiration()     {}

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
				assert.ErrorContains(t, err, "another purgatory")
			}
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

func TestOperationsOfAnotherPurgatoryAreRefusedUnderRace(t *testing.T) {
	produce, fetch := open[int](t, purgatory.WithTimerOptions(timer.WithShards(1))), open[int](t, purgatory.WithTimerOptions(timer.WithShards(64)))
	var wg sync.WaitGroup
	var stop atomic.Bool
	current := make(chan *op, 1)
	for range 2 {
		wg.Go(func() { // methods of the other purgatory
			for !stop.Load() {
				select {
				case o := <-current:
					assert.False(t, fetch.Extend(o, time.Millisecond))
					assert.False(t, fetch.Cancel(o, errGone))
					assert.False(t, fetch.ForceComplete(o))
				default:
					runtime.Gosched()
				}
			}
		})
	}
	for i := range 2000 {
		var met atomic.Bool
		o := until(&met)
		select {
		case current <- o:
		default:
		}
		if _, err := produce.TryCompleteElseWatch(o, time.Duration(i%3)*time.Millisecond, 1, i); !assert.NoError(t, err) {
			break
		}
		select {
		case current <- o:
		default:
		}
		met.Store(true)
		produce.CheckAndComplete(1)
		eventually(t, func() bool { return o.completed.Load() == 1 }, "it ends once")
		assert.NoError(t, o.Cause())
	}
	stop.Store(true)
	wg.Wait()
	empty(t, fetch)
	conserved(t, produce)
}

func TestAnotherPurgatorysMethodsReturnFalse(t *testing.T) {
	mine, clock := onManualClock[string](t), func() *timer.ManualTimer {
		c, err := timer.NewManualTimer()
		require.NoError(t, err)
		return c
	}()
	other := open[int](t, purgatory.WithTimer(clock))
	errForeign := errors.New("foreign")
	o := &op{}
	submit(t, mine, o, time.Second, "a")
	assert.False(t, other.ForceComplete(o))
	assert.False(t, other.Cancel(o, errForeign))
	assert.False(t, other.Extend(o, hour))
	assert.False(t, other.Extend(o, 0))
	pending(t, o)
	mine.AdvanceClock(time.Second)
	ended(t, o, operation.Expired)

	held := newGate()
	busy := &op{}
	busy.try = func() bool {
		if busy.tries.Load() == 3 {
			held.pass()
		}
		return false
	}
	submit(t, mine, busy, hour, "a")
	wait := inBackground(func() { mine.CheckAndComplete("a") })
	<-held.entered
	assert.False(t, other.Cancel(busy, errForeign)) // this leaves no wish
	close(held.leave)
	wait()
	pending(t, busy)
}

// Whoever has seen that the only pending operation has ended finds a place for the next one,
// however that has ended: in the purgatory, and in its timer.
func TestAnOperationThatHasEndedTakesNoPlace(t *testing.T) {
	for name, bound := range map[string]purgatory.Option{
		"of the purgatory": purgatory.WithMaxPending(1),
		"of the timer":     purgatory.WithTimerOptions(timer.WithMaxPending(1)),
	} {
		t.Run(name, func(t *testing.T) { endedTakesNoPlace(t, bound) })
	}
}

func endedTakesNoPlace(t *testing.T, bound purgatory.Option) {
	p := open[int](t, bound, purgatory.WithoutReaper())
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

func TestANilOperationIsRefusedBeforeItsKeysAreHashed(t *testing.T) {
	p := open[any](t)
	_, err := p.TryCompleteElseWatch(nil, hour, []int{1})
	require.ErrorIs(t, err, purgatory.ErrNilOperation)
}

func TestAUsedOperationGivesItsPlaceBack(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithMaxPending(2))
	op := probed(t, p, time.Hour, "a")
	for range 5 {
		_, err := p.TryCompleteElseWatch(op, time.Hour, "a")
		require.ErrorIs(t, err, purgatory.ErrUsed)
	}
	probed(t, p, time.Hour, "a")
	_, err := p.TryCompleteElseWatch(&probe{}, time.Hour, "a")
	require.ErrorIs(t, err, purgatory.ErrFull)
	_, err = p.TryCompleteElseWatch(op, time.Hour, "a")
	require.ErrorIs(t, err, purgatory.ErrUsed, "not ErrFull: it was never counted")
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

func TestAClosedPurgatoryReturnsErrClosedForAnyKeys(t *testing.T) {
	p := onManualClock[string](t)
	require.NoError(t, p.Close())
	keys := make([]string, operation.MaxKeys+1)
	_, err := p.TryCompleteElseWatch(&probe{}, time.Hour, keys[1:]...)
	require.ErrorIs(t, err, purgatory.ErrClosed)
	_, err = p.TryCompleteElseWatch(&probe{}, time.Hour, keys...)
	require.ErrorIs(t, err, purgatory.ErrTooManyKeys)
}

func TestARefusedRegistrationDropsRequestsToEnd(t *testing.T) {
	p := onManualClock[string](t)
	o := newHeldOp()
	proceed := o.holdInRegistration(p, 1, hour, "a")
	assert.False(t, p.Cancel(o, errGone))
	require.NoError(t, p.Close())
	_, err := proceed(false)
	require.ErrorIs(t, err, purgatory.ErrClosed)
	pending(t, &o.op)
	require.NoError(t, o.Cause())
	// It was not accepted, so another purgatory accepts it.
	other := onManualClock[string](t)
	o.try = nil
	submit(t, other, o, time.Second, "a")
	other.AdvanceClock(time.Second)
	ended(t, &o.op, operation.Expired)
}
