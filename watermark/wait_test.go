package watermark

import (
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

func startWait(t *testing.T, w *Watermark[string], position int64) *Wait[string] {
	t.Helper()
	s, err := w.StartWait(position)
	require.NoError(t, err)
	return s
}

// over reports whether the channel of a wait is closed.
func over(w *Wait[string]) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

// rqlite hands out one channel for each index that requests wait for.
func TestManyShareAChannel(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		first, second, other := startWait(t, w, 5), startWait(t, w, 5), startWait(t, w, 6)
		blocks := await(w, 5)
		require.Equal(t, first.Done(), second.Done())
		require.Equal(t, 2, p.NumDelayed())
		require.Equal(t, 4, w.Waiting())
		require.ErrorIs(t, first.Err(), purgatory.ErrPending)
		w.Advance(5)
		require.True(t, over(first))
		require.NoError(t, first.Err())
		require.NoError(t, second.Err())
		blocks.returned(t, nil)
		require.False(t, first.Stop(), "it has ended")
		require.Equal(t, 1, w.Waiting())
		require.False(t, over(other))
		w.Close(errGone)
		require.True(t, over(other))
		require.Equal(t, errGone, other.Err())
		left(t, w)
	})
}

// Nothing is left when nobody waits any more.
func TestStop(t *testing.T) {
	inBubble(t, func(t *testing.T, p *strings, w *Watermark[string]) {
		first, second := startWait(t, w, math.MaxInt64), startWait(t, w, math.MaxInt64)
		require.True(t, first.Stop())
		require.False(t, first.Stop())
		require.False(t, first.Stop(), "it leaves once")
		require.Equal(t, 1, w.Waiting())
		require.False(t, over(second))
		require.True(t, second.Stop())
		left(t, w)
	})
}

func TestAWaitForWhatWasReached(t *testing.T) {
	p := newPurgatory(t)
	w := New(p, "a", 5)
	s := startWait(t, w, 5)
	require.True(t, over(s))
	require.NoError(t, s.Err())
	require.False(t, s.Stop())
	require.Zero(t, p.Stats().Accepted)
	left(t, w)

	require.NoError(t, p.Close())
	_, err := w.StartWait(6)
	require.ErrorIs(t, err, purgatory.ErrClosed)
	require.NoError(t, startWait(t, w, 5).Err())
	left(t, w)
}

// A Wait that comes while another goroutine registers its wait ends with the error of the registration.
func TestAWaitWhoseRegistrationIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurgatory(t, purgatory.WithMaxPending(1))
		w := New(p, "a", 0)
		other := startWait(t, w, 9)
		s, _, err := enter(w, 5)
		require.NoError(t, err)
		wait := startWait(t, w, 5)
		require.ErrorIs(t, s.start(), purgatory.ErrFull)
		require.True(t, over(wait))
		require.ErrorIs(t, wait.Err(), purgatory.ErrFull)
		require.True(t, other.Stop())
		left(t, w)
	})
}
