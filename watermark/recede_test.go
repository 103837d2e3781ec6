package watermark

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
)

// immudb's RecedeTo: a log is truncated. Who waits goes on waiting, and who comes waits again.
func TestRecede(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		w.Advance(5)
		before := await(w, 7)
		w.Recede(6)
		w.Recede(5)
		require.EqualValues(t, 5, w.Position(), "it is as low already")
		shares := await(w, 7)
		require.Equal(t, []int{1, 2}, []int{p.NumDelayed(), w.Waiting()}, "a Recede that does nothing parts nobody")
		w.Recede(3)
		require.EqualValues(t, 3, w.Position())
		before.waits(t)
		again, beside := await(w, 5), await(w, 7)
		require.Equal(t, []int{3, 4}, []int{p.NumDelayed(), w.Waiting()})
		w.Advance(4)
		again.waits(t)
		w.Advance(5)
		again.returned(t, nil)
		before.waits(t)
		w.Advance(7)
		before.returned(t, nil)
		shares.returned(t, nil)
		beside.returned(t, nil)
		left(t, w)
	})
}

// A check has said yes and is about to end the wait when the position falls. Those in the wait have their yes; who comes
// later does not share it.
func TestNobodyGetsAYesFromBeforeRecede(t *testing.T) {
	for _, beside := range []bool{false, true} {
		p := newPurgatory(t)
		w := New(p, "a", 0)
		if beside {
			other := startWait(t, w, 9)
			defer other.Stop()
		}
		s := entered(t, w)
		m := machine.Of(s)
		require.True(t, m.Acquire())
		w.at.Store(5)
		require.True(t, s.TryComplete())
		w.Recede(4)
		later := entered(t, w)
		require.NotSame(t, s, later)
		m.End()
		require.NoError(t, s.err())
		require.Equal(t, operation.Pending, later.Outcome())
		require.True(t, leaves(w, later))
		if !beside {
			left(t, w)
		}
	}
}

// The goroutine that registers a wait finds the position reached, and it falls before the wait has ended.
func TestAYesIsNotTakenBack(t *testing.T) {
	p := newPurgatory(t)
	w := New(p, "a", 0)
	s := entered(t, w)
	w.at.Store(5)
	w.Recede(4)
	s.end(&reached)
	require.NoError(t, s.err())
	p.Cancel(s, nil)
	left(t, w)
}

// Waits from before Recede are left and closed as others are.
func TestWaitsFromBeforeRecede(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		w.Advance(4)
		leaves, stays, higher := await(w, 5), await(w, 5), await(w, 6)
		w.Recede(2)
		later := await(w, 5)
		leaves.leave(errGone)
		leaves.returned(t, errGone)
		stays.waits(t)
		higher.leave(errGone)
		higher.returned(t, errGone)
		require.Equal(t, 2, p.NumDelayed())
		w.Close(errNotLeader)
		stays.returned(t, errNotLeader)
		later.returned(t, errNotLeader)
		left(t, w)
	})
}
