package timer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An entry in a bucket of the lowest wheel is not placed again before it is due: it is
// the one who claims it that has to see the later deadline. One in a higher wheel comes
// down by it.
func TestExtendedEntryIsNotEarlyWhereverItLies(t *testing.T) {
	for _, first := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 63 * time.Millisecond, 64 * time.Millisecond, time.Second, time.Hour} {
		for _, longer := range []time.Duration{time.Millisecond, 3 * time.Millisecond, 100 * time.Millisecond, time.Minute} {
			t.Run(first.String()+" and "+longer.String(), func(t *testing.T) {
				m := newManual(t)
				var at time.Duration
				h, err := m.AfterFunc(first, func() { at = m.Now() })
				require.NoError(t, err)
				require.True(t, h.Extend(first+longer))
				m.AdvanceClock(first + longer - 1)
				assert.Zero(t, at, "early")
				assert.Equal(t, 1, m.Pending())
				m.AdvanceClock(1)
				assert.Equal(t, first+longer, at)
			})
		}
	}
}

// A clock that reads 0 has reached a deadline of 0, though an entry cannot hold it.
func TestExtendToNowWhenTheClockReadsNothing(t *testing.T) {
	m := newManual(t, WithTick(time.Hour))
	h, err := m.AfterFunc(24*time.Hour, func() {})
	require.NoError(t, err)
	require.True(t, h.Extend(0))
	require.True(t, m.AdvanceClock(0))
	assert.Equal(t, Expired, h.State())
}
