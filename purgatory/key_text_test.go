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
	log := &records{}
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := New[mute]("test", WithTimer(clock), WithLogger(slog.New(log)), WithSlowCallback(1))
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	op := &teller{tell: func() { time.Sleep(time.Millisecond) }}
	_, err = p.TryCompleteElseWatch(op, time.Hour, 1)
	require.NoError(t, err)
	assert.Equal(t, 1, p.CompleteForKey(1))
	found := log.find(EventSlow)
	require.Len(t, found, 1)
	assert.Equal(t, "purgatory.mute", found[0]["key"], "its type")
}
