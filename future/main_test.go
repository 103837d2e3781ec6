package future

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

type futures = purgatory.Purgatory[string]

// newManual returns a purgatory whose clock moves by AdvanceClock only.
func newManual(t *testing.T) *futures {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	return newPurgatory(t, purgatory.WithTimer(clock))
}

func newPurgatory(t *testing.T, opts ...purgatory.Option) *futures {
	t.Helper()
	p, err := purgatory.New[string]("futures", opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.Zero(t, p.NumDelayed())
		require.Zero(t, p.Stats().Panics)
	})
	return p
}

// ending records the calls of the function that GatherFunc is given.
type ending struct {
	calls   int
	results []Result[int]
	err     error
}

func (e *ending) record(results []Result[int], err error) {
	e.calls++
	e.results, e.err = results, err
}
