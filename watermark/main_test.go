package watermark

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

type strings = purgatory.Purgatory[string]

// newPurgatory returns a purgatory without a reaper: nothing repairs later what a check has missed.
func newPurgatory(t *testing.T, opts ...purgatory.Option) *strings {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := purgatory.New[string]("watermarks", append(opts, purgatory.WithTimer(clock))...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.Zero(t, p.NumDelayed())
		require.Zero(t, p.Stats().Panics)
	})
	return p
}

// enter is Watermark.enter for one that has no timeout.
func enter[K comparable](w *Watermark[K], position int64) (s *shared[K], starts bool, err error) {
	s, _, starts, err = w.enter(arrives(), position)
	return s, starts, err
}

// leaves has the first member of s leave, and reports whether it has.
func leaves[K comparable](w *Watermark[K], s *shared[K]) bool {
	w.mu.Lock()
	m := s.first
	w.mu.Unlock()
	return m != nil && w.leave(s, m, givesUp) != stays
}

// left checks that nothing is left of the waits of w.
func left[K comparable](t *testing.T, w *Watermark[K]) {
	t.Helper()
	require.Zero(t, w.p.NumDelayed())
	require.Zero(t, w.p.Stats().Watched)
	require.Zero(t, w.Waiting())
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Nil(t, w.mu.first)
	require.Empty(t, w.mu.waits)
	require.Nil(t, w.mu.oldest)
	require.Nil(t, w.mu.newest)
	clean(t)
}

// clean checks what is kept for later waits: it is as new, and refers to nobody.
func clean(t *testing.T) {
	t.Helper()
	if m, ok := members.Get().(*member); ok {
		require.Equal(t, member{}, *m)
		members.Put(m)
	}
	if a, ok := alarms.Get().(*alarm); ok {
		require.True(t, a.of == nil && a.m == nil && a.again, "an alarm refers to its last wait")
		require.Empty(t, a.rang)
		alarms.Put(a)
	}
	if c, ok := crowds.Get().(*crowd); ok {
		require.True(t, c.prev == nil && c.next == nil && c.op == nil && c.first == nil && c.last == nil, "a crowd refers to its last wait")
		require.Empty(t, c.over)
		crowds.Put(c)
	}
}
