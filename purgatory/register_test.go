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

// The purgatory does not read the slice of keys once the first TryComplete has begun.
func TestKeysAreReadBeforeTheFirstTry(t *testing.T) {
	for _, n := range []int{1, 4, 5, 100} {
		p := onManualClock[int](t)
		keys := make([]int, n)
		for i := range keys {
			keys[i] = i
		}
		at := make([]purgatory.KeyPosition[int], n)
		for i := range at {
			at[i] = purgatory.KeyPosition[int]{Key: i, Position: int64(i)}
		}
		byKey := &op{try: func() bool { clear(keys); return false }}
		byPosition := &op{try: func() bool { clear(at); return false }}
		submit(t, p, byKey, hour, keys...)
		_, err := p.TryCompleteElseWatchAt(byPosition, hour, at...)
		require.NoError(t, err)
		assert.Equal(t, 2*n, p.Watched())
		assert.Equal(t, n, p.NumKeys())
		last := n - 1
		byKey.try, byPosition.try = func() bool { return true }, func() bool { return true }
		assert.Equal(t, 1, p.CheckAndCompleteUpTo(last, int64(last)-1))
		assert.Equal(t, 1, p.CheckAndCompleteUpTo(last, int64(last)))
		empty(t, p)
	}
}

func TestManyKeysAndAwaitAllocateLittle(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithWatcherShards(1))
	keys := []int{1, 2, 3, 4, 5, 6, 7}
	many := testing.AllocsPerRun(500, func() {
		o := &op{}
		_, _ = p.TryCompleteElseWatch(o, hour, keys...)
		p.ForceComplete(o)
	})
	assert.LessOrEqual(t, many, 2.0, "the operation; one more under the race detector, which forgets what is pooled")
	tries := 0
	ready := func() bool {
		tries++
		return tries%2 == 0 // yes in the second try, when it has waited
	}
	ctx := t.Context()
	assert.LessOrEqual(t, testing.AllocsPerRun(500, func() { _ = p.Await(ctx, hour, ready, 1) }), 3.0)
}

func TestChangingTheKeysInTryCompleteHasNoEffect(t *testing.T) {
	p := onManualClock[string](t)
	keys := []string{"a", "b", "c", "d", "e", "f"}
	o := &op{try: func() bool {
		for i := range keys {
			keys[i] = "filtered"
		}
		return false
	}}
	submit(t, p, o, hour, keys...)
	tries := o.tries.Load()
	for _, key := range []string{"a", "f"} {
		p.CheckAndComplete(key)
		tries++
		assert.Equal(t, tries, o.tries.Load(), key)
	}
	p.CheckAndComplete("filtered")
	assert.Equal(t, tries, o.tries.Load())
	assert.Equal(t, 6, p.NumKeys())
}

// Extend may be called at any moment of a registration, and returns false until it is over.
func TestExtendReturnsFalseDuringRegistration(t *testing.T) {
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

func TestRegistrationTriesTwiceForAnyNumberOfKeys(t *testing.T) {
	p := onManualClock[int](t)
	for keys := 1; keys <= 100; keys *= 10 {
		o := submitted(t, p, make([]int, keys)...)
		assert.EqualValues(t, 2, o.tries.Load())
	}
	o := &op{}
	submit(t, p, o, 0, 1, 2, 3)
	assert.EqualValues(t, 2, o.tries.Load(), "also when there is no time to wait")
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
