package purgatory

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
)

// Close ends an operation whatever the clocks say: one that was registered outside a synctest bubble seems to
// come from the future in it.
func TestCloseEndsWhatSeemsToHaveComeLater(t *testing.T) {
	p := newManual(t)
	o := submit(t, p, time.Hour, "a")
	machine.Of(o).SetStart(time.Hour)
	assert.Zero(t, p.CancelForKey("a", nil), "it has come later")
	require.NoError(t, p.Close())
	assert.Equal(t, operation.Closed, o.Outcome())
}

// The record of Close counts waits that were met at once, as Stats does.
func TestTheRecordOfCloseCountsWaitsThatWereMetAtOnce(t *testing.T) {
	log := &records{}
	p := newManual(t, WithLogger(slog.New(log)))
	require.NoError(t, p.Await(t.Context(), time.Hour, func() bool { return true }, "a"))
	require.NoError(t, p.Close())
	got := log.find(EventClosed)
	require.Len(t, got, 1)
	assert.EqualValues(t, 1, got[0]["satisfied"])
	assert.EqualValues(t, 1, p.Stats().Satisfied)
}
