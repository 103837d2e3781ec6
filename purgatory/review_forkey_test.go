package purgatory_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// CompleteForKey ends what waits for the key, whatever else it waits for, and nothing that its
// callbacks register meanwhile.
func TestCompleteForKeyEndsWhatWaitsAndNothingElse(t *testing.T) {
	const n = 300 // more than two batches
	for _, ordered := range []bool{false, true} {
		p := open[string](t)
		var waiting, later []*op
		other := submitted(t, p, "b")
		for i := range n {
			o := &op{complete: func() {
				again := &op{}
				at := purgatory.KeyPosition[string]{Key: "a", Position: purgatory.AnyPosition}
				if ordered {
					at.Position = int64(n - 2 - i%9) // before the last, and so ahead of the walk
				}
				_, err := p.TryCompleteElseWatchAt(again, hour, at)
				assert.NoError(t, err)
				later = append(later, again)
			}}
			at := purgatory.KeyPosition[string]{Key: "a", Position: purgatory.AnyPosition}
			if ordered {
				at.Position = int64(i)
			}
			_, err := p.TryCompleteElseWatchAt(o, hour, at, purgatory.KeyPosition[string]{Key: "b", Position: purgatory.AnyPosition})
			require.NoError(t, err)
			waiting = append(waiting, o)
		}
		// A verb of another kind uses the same pools before and afterwards.
		assert.Zero(t, p.CheckAndComplete("a", "b"))
		assert.Equal(t, n, p.CompleteForKey("a"))
		for _, o := range waiting {
			ended(t, o, operation.Forced)
			require.NoError(t, o.Cause())
		}
		require.Len(t, later, n)
		for _, o := range later {
			pending(t, o)
		}
		pending(t, other)
		assert.EqualValues(t, n, p.Stats().Forced)
		assert.Equal(t, n, p.CancelForKey("a", errGone))
		for _, o := range later {
			ended(t, o, operation.Cancelled)
			require.ErrorIs(t, o.Cause(), errGone)
		}
		assert.Zero(t, p.CompleteForKey("a"))
		assert.Equal(t, 1, p.CompleteForKey("b"))
		conserved(t, p)
		empty(t, p)
	}
}

// An operation that another goroutine tries ends as forced when the try returns false, and is
// counted by nobody else.
func TestCompleteForKeyLeavesAnOperationThatIsTriedToItsHolder(t *testing.T) {
	p := onManualClock[string](t)
	held := newHeldOp()
	submit(t, p, held, hour, "a")
	proceed := held.holdInCheck(p, "a")
	o := submitted(t, p, "a")
	assert.Equal(t, 1, p.CompleteForKey("a"))
	ended(t, o, operation.Forced)
	proceed(false)
	ended(t, &held.op, operation.Forced)
	assert.EqualValues(t, 2, p.Stats().Forced)
}

// Several goroutines complete and cancel one key: each operation is counted once.
func TestCompleteForKeyCountsEachOperationOnceUnderRace(t *testing.T) {
	p := onManualClock[int](t)
	for range 30 {
		for range 500 {
			submitted(t, p, 1)
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		sum := 0
		for g := range 4 {
			wg.Go(func() {
				var n int
				if g%2 == 0 {
					n = p.CompleteForKey(1)
				} else {
					n = p.CancelForKey(1, nil)
				}
				mu.Lock()
				defer mu.Unlock()
				sum += n
			})
		}
		wg.Wait()
		require.Equal(t, 500, sum)
	}
	s := conserved(t, p)
	assert.EqualValues(t, 30*500, s.Forced+s.Cancelled)
}
