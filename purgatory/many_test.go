package purgatory_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// A purgatory for each partition, store or index: on a timer that they share, they have no
// goroutine, before and after an operation has waited there, and Close leaves nothing.
func TestTenThousandPurgatoriesOnOneTimer(t *testing.T) {
	shared, err := timer.NewSystemTimer()
	require.NoError(t, err)
	shared.Start()
	defer shared.Stop()
	before := runtime.NumGoroutine()
	all := make([]*purgatory.DelayedOperationPurgatory[string], 10_000)
	for i := range all {
		all[i], err = purgatory.New[string]("partition", purgatory.WithTimer(shared), purgatory.WithoutReaper())
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
	for _, p := range all {
		submit(t, p, &op{}, hour, "a")
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
	assert.Equal(t, len(all), shared.Pending())
	for _, p := range all[1:] {
		require.NoError(t, p.Close())
	}
	assert.Equal(t, 1, shared.Pending(), "that of the one which is open")
	assert.Equal(t, 1, all[0].NumDelayed())
	require.NoError(t, all[0].Close())
	for _, p := range all {
		require.Zero(t, p.NumDelayed())
		require.NoError(t, p.Shutdown(t.Context()))
	}
}
