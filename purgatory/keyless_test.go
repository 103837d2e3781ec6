package purgatory_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// A wait without a key is a plain delayed answer, which its timeout, its context, a check of
// everything or Close ends. No check of a key finds it, not even of the zero key.
func TestAWaitNeedsNoKey(t *testing.T) {
	p := onManualClock[string](t)
	ready := false
	start := func() *purgatory.Wait[string] {
		w, err := p.StartWait(time.Second, func() bool { return ready })
		require.NoError(t, err)
		return w
	}
	w := start()
	assert.Equal(t, 1, p.NumDelayed())
	assert.Empty(t, slices.Collect(p.Keys()))
	assert.Zero(t, p.Waiting(""))
	ready = true
	assert.Zero(t, p.CheckAndComplete(""))
	assert.Zero(t, p.CancelForKey("", nil))
	ready = false
	p.AdvanceClock(time.Second - 1)
	require.ErrorIs(t, w.Err(), purgatory.ErrPending)
	p.AdvanceClock(1)
	require.ErrorIs(t, w.Err(), purgatory.ErrExpired)

	w = start()
	ready = true
	assert.Equal(t, 1, p.CheckAndCompleteAll())
	require.NoError(t, w.Err())

	ready = false
	w = start()
	assert.True(t, w.Stop())
	require.ErrorIs(t, w.Err(), purgatory.ErrCancelled)

	w = start()
	require.NoError(t, p.Close())
	require.ErrorIs(t, w.Err(), purgatory.ErrClosed)
	s := p.Stats()
	assert.Equal(t, []int64{4, 0, 0, 0}, []int64{s.Accepted, s.Pending, s.Watched, s.Keys})
	_, err := p.StartWait(time.Second, func() bool { return false })
	require.ErrorIs(t, err, purgatory.ErrClosed)
}

func TestAnAwaitNeedsNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[int](t)
		never := func() bool { return false }
		began := time.Now()
		ctx := context.Background()
		require.ErrorIs(t, p.Await(ctx, time.Minute, never), purgatory.ErrExpired)
		assert.Equal(t, time.Minute, time.Since(began).Truncate(time.Second))
		require.ErrorIs(t, p.AwaitAt(ctx, time.Minute, never), purgatory.ErrExpired)
		_, err := purgatory.AwaitValue(ctx, p, time.Minute, func() (int, bool) { return 0, time.Since(began) >= 3*time.Minute })
		require.ErrorIs(t, err, purgatory.ErrExpired, "who waits without a key is not tried at the timeout")
		read, err := purgatory.AwaitRead(ctx, p, time.Minute, func(context.Context) (int, bool, error) { return 7, false, nil })
		require.ErrorIs(t, err, purgatory.ErrExpired)
		assert.Equal(t, 7, read)
		gone, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, p.Await(gone, time.Minute, never), context.DeadlineExceeded)
	})
}

// Without a key and without a timeout nothing would end a wait but Close.
func TestAWaitWithoutKeyOrTimeoutIsRefused(t *testing.T) {
	p := onManualClock[string](t)
	for _, timeout := range []time.Duration{purgatory.NoTimeout, 0, -1} {
		require.ErrorIs(t, p.Await(t.Context(), timeout, func() bool { return true }), purgatory.ErrNoKeys, "%v", timeout)
		_, err := p.StartWait(timeout, func() bool { return true })
		require.ErrorIs(t, err, purgatory.ErrNoKeys)
		_, err = purgatory.AwaitRead(t.Context(), p, timeout, func(context.Context) (int, bool, error) { return 0, true, nil })
		require.ErrorIs(t, err, purgatory.ErrNoKeys)
	}
	o := &op{}
	_, err := p.TryCompleteElseWatch(o, time.Minute)
	require.ErrorIs(t, err, purgatory.ErrNoKeys, "an operation")
	assert.Equal(t, operation.Pending, o.Outcome())
}

// Waits without a key compete for nothing, so none of them stands in line behind another.
func TestAWaitWithoutAKeyStandsInNoLine(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithFirstInFirstOut())
	_, err := p.StartWait(time.Second, func() bool { return false })
	require.NoError(t, err)
	w, err := p.StartWait(time.Second, func() bool { return true })
	require.NoError(t, err)
	require.NoError(t, w.Err(), "ended at once")
	tries := 0
	w, err = p.StartWait(time.Second, func() bool { tries++; return tries == 2 })
	require.NoError(t, err)
	require.NoError(t, w.Err(), "tried again when it waits")
	tries = 0
	require.NoError(t, p.Await(t.Context(), time.Second, func() bool { tries++; return true }))
	assert.Equal(t, 1, tries)
}

// No check of a NaN finds an operation, but the one in order that takes the place of its second try does.
func TestWhoWaitsForANaNIsTriedAgainInOrder(t *testing.T) {
	p := onManualClock[float64](t, purgatory.WithFirstInFirstOut())
	tries := 0
	w, err := p.StartWait(time.Second, func() bool { tries++; return tries == 2 }, math.NaN())
	require.NoError(t, err)
	require.NoError(t, w.Err(), "a change of state before CheckAndCompleteAll is seen")
}

// Those who wait without a key stand under none in Inspect: not under the key's zero value, which may be a key
// that others wait for and check.
func TestThoseWithoutAKeyStandUnderNoneInInspect(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithKeyStats(64))
	no := func() bool { return false }
	_, err := p.StartWait(time.Hour, no, "")
	require.NoError(t, err)
	_, err = p.StartWait(time.Second, no)
	require.NoError(t, err)
	in := p.Inspect(10, 10)
	require.Len(t, in.Hot, 1)
	assert.Equal(t, []any{"", int64(1), 1}, []any{in.Hot[0].Key, in.Hot[0].Watched, in.Hot[0].Waiting})
	require.Len(t, in.Oldest, 2)
	assert.ElementsMatch(t, []int{1, 0}, []int{in.Oldest[0].Keys, in.Oldest[1].Keys})
	p.AdvanceClock(2 * time.Second)
	assert.Empty(t, p.Inspect(10, 10).Expiring, "the wait has expired, and it has no key")
}
