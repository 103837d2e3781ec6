package timer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHandleRunsOnceAndReportsItsState(t *testing.T) {
	m := newManual(t)
	runs := 0
	inside := ""
	var h *Handle
	h, err := m.AfterFunc(time.Second, func() { runs++; inside = stateOf(h) })
	require.NoError(t, err)
	assert.Equal(t, "pending", stateOf(h))
	m.AdvanceClock(time.Hour)
	assert.Equal(t, 1, runs)
	assert.Equal(t, "expired", inside)
	assert.Equal(t, "expired", stateOf(h))
	assert.False(t, h.Stop(), "it has run")
	assert.Equal(t, "expired", stateOf(h))
	assert.False(t, h.Extend(time.Second), "it has run")
}

func TestHandleStop(t *testing.T) {
	m := newManual(t)
	h, err := m.AfterFunc(time.Second, func() { t.Error("stopped, but ran") })
	require.NoError(t, err)
	assert.True(t, h.Stop())
	assert.Equal(t, "cancelled", stateOf(h))
	assert.False(t, h.Stop(), "a second time")
	assert.False(t, h.Extend(time.Hour))
	m.AdvanceClock(time.Hour)
	assert.Zero(t, m.Pending())
}

func TestHandleExtendAndReset(t *testing.T) {
	m := newManual(t)
	var at []time.Duration
	h, err := m.AfterFunc(time.Second, func() { at = append(at, m.Now()) })
	require.NoError(t, err)

	assert.True(t, h.Extend(3*time.Second), "later")
	m.AdvanceClock(2 * time.Second)
	assert.True(t, h.Extend(10*time.Second), "later, from now on")
	assert.True(t, h.Extend(2*time.Second), "earlier")
	pending, err := h.Reset(3 * time.Second)
	assert.True(t, pending)
	require.NoError(t, err)
	m.AdvanceClock(time.Minute)
	assert.Equal(t, []time.Duration{5 * time.Second}, at)

	pending, err = h.Reset(time.Second)
	assert.False(t, pending, "it had run; it runs again")
	require.NoError(t, err)
	assert.Equal(t, "pending", stateOf(h))
	m.AdvanceClock(time.Minute)
	assert.Equal(t, []time.Duration{5 * time.Second, 63 * time.Second}, at)

	pending, err = h.Reset(time.Second)
	assert.False(t, pending)
	require.NoError(t, err)
	assert.True(t, h.Stop())
	pending, err = h.Reset(time.Second)
	assert.False(t, pending, "it was stopped; it runs again")
	require.NoError(t, err)
	m.AdvanceClock(time.Minute)
	assert.Len(t, at, 3)
}

func TestHandleResetFromItsOwnFunction(t *testing.T) {
	m := newManual(t)
	var h *Handle
	runs := 0
	h, err := m.AfterFunc(time.Second, func() {
		if runs++; runs < 5 {
			pending, err := h.Reset(time.Second)
			assert.False(t, pending)
			assert.NoError(t, err)
		}
	})
	require.NoError(t, err)
	m.AdvanceClock(time.Minute)
	assert.Equal(t, 5, runs)
	assert.Equal(t, "expired", stateOf(h))
}

func TestHandleErrors(t *testing.T) {
	m := newManual(t, WithMaxPending(1))
	_, err := m.AfterFunc(time.Second, nil)
	require.ErrorIs(t, err, ErrInvalid)
	h, err := m.AfterFunc(time.Second, func() {})
	require.NoError(t, err)
	_, err = m.AfterFunc(time.Second, func() {})
	require.ErrorIs(t, err, ErrFull)
	assert.True(t, h.Stop())
	other, err := m.AfterFunc(time.Second, func() {})
	require.NoError(t, err)
	pending, err := h.Reset(time.Second)
	require.ErrorIs(t, err, ErrFull)
	assert.False(t, pending)
	assert.Equal(t, []any{other}, m.Stop())
	_, err = h.Reset(time.Second)
	require.ErrorIs(t, err, ErrStopped)
	_, err = m.AfterFunc(time.Second, func() {})
	require.ErrorIs(t, err, ErrStopped)
}
