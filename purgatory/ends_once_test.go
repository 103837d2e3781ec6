package purgatory_test

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

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

func TestACheckRunsCallbacksOnItsCallersGoroutine(t *testing.T) {
	p := onManualClock[string](t)
	var met atomic.Bool
	n := 0 // without a lock: the race detector sees a second goroutine
	for range 300 {
		o := until(&met)
		o.complete = func() { n++ }
		submit(t, p, o, hour, "a")
	}
	met.Store(true)
	assert.Equal(t, 300, p.CheckAndComplete("a"))
	assert.Equal(t, 300, n)
}

func TestOperationsOfAKeyAreTriedInOrder(t *testing.T) {
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
	assert.Equal(t, 500, int(p.Stats().Keys))
	require.True(t, p.ForceComplete(o))
	assert.Equal(t, 1, p.NumDelayed(), "without a purge")
	assert.Equal(t, 1, p.Watched(), "without a purge")
	assert.Equal(t, 1, int(p.Stats().Keys), "without a purge")
	pending(t, stays)
}

func TestWatchedCountsEntriesNotOperations(t *testing.T) {
	p := onManualClock[string](t)
	a, b := submitted(t, p, "x"), submitted(t, p, "x", "y", "z")
	c := submitted(t, p, "x", "x") // the same key twice: two entries
	assert.Equal(t, []int{3, 6, 3}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)})
	s := p.Stats() // KAFKA-1616
	assert.Equal(t, []int64{3, 6, 3}, []int64{s.Pending, s.Watched, s.Keys})
	p.ForceComplete(b)
	assert.Equal(t, []int{2, 3, 1}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)})
	p.ForceComplete(c)
	p.ForceComplete(a)
	assert.Equal(t, []int{0, 0, 0}, []int{p.NumDelayed(), p.Watched(), int(p.Stats().Keys)})
}

func TestCancelForKeyEndsOnlyOperationsOfTheKey(t *testing.T) {
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

// Who polls an outcome shares nothing else with the goroutine that ends the operation: so the race detector sees a cause that is written
// after the outcome.
func TestWhoSeesACancellationSeesItsCause(t *testing.T) {
	for name, cancel := range map[string]func(p *stringPurgatory, o *heldOp){
		"an operation": func(p *stringPurgatory, o *heldOp) { p.Cancel(o, errGone) },
		"a key":        func(p *stringPurgatory, _ *heldOp) { p.CancelForKey("b", errGone) },
		"one that is being tried": func(p *stringPurgatory, o *heldOp) {
			proceed := o.holdInCheck(p, "a")
			p.Cancel(o, errGone)
			proceed(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := purgatory.New[string]("polled")
			require.NoError(t, err)
			defer p.Close()
			o := newHeldOp()
			_, err = p.TryCompleteElseWatch(o, hour, "a", "b")
			require.NoError(t, err)
			seen := make(chan error, 1)
			go func() {
				for o.Outcome() == operation.Pending {
					runtime.Gosched()
				}
				seen <- o.Cause()
			}()
			cancel(p, o)
			select {
			case cause := <-seen:
				assert.Equal(t, errGone, cause)
			case <-time.After(patience):
				require.Fail(t, "the operation has not ended")
			}
		})
	}
}

func TestOutcomesPrintTheirNames(t *testing.T) {
	var all []string
	for o := range operation.Outcome(operation.NumOutcomes) {
		all = append(all, o.String())
	}
	assert.Equal(t, []string{"pending", "satisfied", "forced", "expired", "cancelled", "closed"}, all)
	assert.Equal(t, "Outcome(77)", operation.Outcome(77).String())
}

// An operation that waits for several of the keys that are checked is tried once.
func TestACheckOfSeveralKeysEndsAnOperationOnce(t *testing.T) {
	p := onManualClock[string](t)
	both, one := submitted(t, p, "a", "b", "c"), submitted(t, p, "b")
	assert.Zero(t, p.CheckAndComplete("a", "b", "c", "d"))
	assert.EqualValues(t, 3, one.tries.Load())
	assert.Zero(t, p.CheckAndComplete())
	both.try = func() bool { return true }
	one.try = both.try
	assert.Equal(t, 2, p.CheckAndComplete("c", "b"))
	empty(t, p)
}

// successor is satisfied by the first check: the two tries of its registration are in vain. Its
// OnComplete registers the next one.
type successor struct {
	operation.DelayedOperation
	p     *purgatory.Purgatory[int]
	tries int
}

func (s *successor) TryComplete() bool { s.tries++; return s.tries > 2 }
func (s *successor) OnExpiration()     {}

func (s *successor) OnComplete() {
	_, _ = s.p.TryCompleteElseWatch(&successor{p: s.p}, purgatory.NoTimeout, 1)
}

// A check of more operations than fit into a batch ends those that waited when it was called, and
// none that their callbacks register.
func TestACheckEndsNoNewcomers(t *testing.T) {
	p, err := purgatory.New[int](t.Name(), purgatory.WithWatcherShards(1))
	require.NoError(t, err)
	defer p.Close()
	const waiting = 200
	for range waiting {
		_, err := p.TryCompleteElseWatch(&successor{p: p}, purgatory.NoTimeout, 1)
		require.NoError(t, err)
	}
	assert.Equal(t, waiting, p.CheckAndComplete(1))
}

// Each of 300 fetches is submitted again when it is cancelled, before the fetch that waits for a later position. What
// was submitted after the call is not cancelled by it, and does not keep it going.
func TestACancellationEndsWhatWaitedWhenItWasCalled(t *testing.T) {
	for name, cancel := range map[string]func(p *stringPurgatory) int{
		"CancelForKey": func(p *stringPurgatory) int { return p.CancelForKey("k", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			p := open[string](t)
			submitted := 0
			over := false
			var submitAt func(position int64)
			submitAt = func(position int64) {
				if submitted++; over || submitted > 10_000 { // so that the test ends
					return
				}
				_, err := p.TryCompleteElseWatchAt(&op{complete: func() { submitAt(position) }}, time.Hour,
					purgatory.KeyPosition[string]{Key: "k", Position: position})
				require.NoError(t, err)
			}
			for range 300 {
				submitAt(5)
			}
			submitAt(10)
			assert.Equal(t, 301, cancel(p))
			assert.Equal(t, 301, p.NumDelayed())
			assert.Equal(t, 602, submitted)
			over = true
		})
	}
}

func TestCompletionAndExpiryHaveOneWinner(t *testing.T) {
	// Kafka's published load test uses the timeout as the latency, so that every completion
	// races its expiry. Each operation must end once.
	p := open[int](t, purgatory.WithTick(10*time.Microsecond))
	outcomes := map[operation.Outcome]int{}
	for i := range 1500 {
		var met atomic.Bool
		o := until(&met)
		submitOrNot(t, p, o, 50*time.Microsecond, i%3)
		for start := time.Now(); time.Since(start) < 50*time.Microsecond; {
			runtime.Gosched()
		}
		met.Store(true)
		p.CheckAndComplete(i % 3)
		eventually(t, func() bool { return o.completed.Load() == 1 }, "one of the two")
		outcomes[o.Outcome()]++
	}
	assert.Equal(t, 1500, outcomes[operation.Satisfied]+outcomes[operation.Expired])
	eventually(t, func() bool { return p.Stats().Satisfied == int64(outcomes[operation.Satisfied]) }, "the counters agree")
}

func submitOrNot(t *testing.T, p *intPurgatory, o *op, timeout time.Duration, key int) {
	t.Helper()
	_, err := p.TryCompleteElseWatch(o, timeout, key)
	require.NoError(t, err)
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
