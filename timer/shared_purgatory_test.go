package timer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// A purgatory on the shared timer needs no reaper for its timeouts, and one that has a reaper leaves the timer to others when
// it ends.
func TestPurgatoriesUseTheSharedTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := timer.Shared()
		without, err := purgatory.New[string]("without", purgatory.WithTimer(shared), purgatory.WithoutReaper())
		require.NoError(t, err)
		with, err := purgatory.New[string]("with", purgatory.WithTimer(shared))
		require.NoError(t, err)
		expires := func(p *purgatory.Purgatory[string], d time.Duration) {
			t.Helper()
			start := time.Now()
			require.ErrorIs(t, p.Await(context.Background(), d, func() bool { return false }, "key"), purgatory.ErrExpired)
			took := time.Since(start)
			assert.True(t, took >= d && took <= d+2*time.Millisecond, "%v instead of %v", took, d)
		}
		for _, d := range []time.Duration{time.Millisecond, 10 * time.Second, 50 * time.Millisecond} {
			expires(without, d)
			expires(with, d)
		}
		require.NoError(t, with.Shutdown(context.Background()))
		expires(without, time.Minute)
		require.NoError(t, without.Shutdown(context.Background()))
	})
}
