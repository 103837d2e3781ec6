package purgatory

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

// mute is a key that cannot be formatted.
type mute int

func (mute) String() string { runtime.Goexit(); return "" }

func TestAKeyThatCannotBeFormattedUndoesNothing(t *testing.T) {
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := New[mute]("test", WithTimer(clock), WithLogger(slog.New(&records{})), WithSlowCallback(1))
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	op := &probe{}
	_, err = p.TryCompleteElseWatch(op, time.Hour, 1)
	require.NoError(t, err)
	op.ready = true
	assert.Equal(t, 1, p.CheckAndComplete(1))
}
