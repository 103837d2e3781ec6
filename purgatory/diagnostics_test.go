package purgatory_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestDiagnosticsAreSeveralOptions(t *testing.T) {
	s := open[string](t).Stats()
	assert.False(t, s.Timed || s.CallbacksTimed)
	p := open[string](t, purgatory.WithDiagnostics())
	submit(t, p, &op{}, hour, "a")
	assert.Len(t, p.Inspect(1, 0).Hot, 1, "keys are counted")
	s = p.Stats()
	assert.True(t, s.Timed)
	assert.True(t, s.CallbacksTimed)
	for _, c := range []struct {
		opts []purgatory.Option
		slow int64
	}{
		{[]purgatory.Option{purgatory.WithDiagnostics()}, 1},
		{[]purgatory.Option{purgatory.WithDiagnostics(), purgatory.WithSlowCallback(hour)}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, err := purgatory.New[string]("test", c.opts...)
			require.NoError(t, err)
			submit(t, p, &op{complete: func() { time.Sleep(101 * time.Millisecond) }}, time.Second, "a")
			time.Sleep(2 * time.Second)
			assert.Equal(t, c.slow, p.Stats().SlowCallbacks)
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}

func TestTimeoutsThatAreExpectedAreSaidToBe(t *testing.T) {
	assert.False(t, open[string](t).Stats().TimeoutsExpected)
	assert.True(t, open[string](t, purgatory.WithTimeoutsExpected()).Stats().TimeoutsExpected)
}

// TestCallbacksThatDoNotReturnAreTimedWithoutAnOption while others do, and whether or not somebody reads Stats.
func TestCallbacksThatDoNotReturnAreTimedWithoutAnOption(t *testing.T) {
	for _, looks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p, err := purgatory.New[string]("test")
			require.NoError(t, err)
			may := make(chan struct{})
			for i := range 20 { // of which some have a shard for themselves
				submit(t, p, &op{complete: func() { <-may }}, time.Second, strconv.Itoa(i))
			}
			for range 100 { // one expires every 100 ms
				submit(t, p, &op{}, time.Second, "b")
				time.Sleep(100 * time.Millisecond)
				if looks {
					p.Stats()
				}
			}
			assert.InDelta(t, 9, p.Stats().BlockedFor.Seconds(), 0.5)
			close(may)
			synctest.Wait()
			assert.Zero(t, p.Stats().BlockedFor)
			require.NoError(t, p.Shutdown(t.Context()))
		})
	}
}

func TestNoTimeoutIsLeftAsItIs(t *testing.T) {
	p := open[string](t)
	submit(t, p, &op{}, purgatory.NoTimeout, "a")
	submit(t, p, &op{}, hour, "b")
	oldest := p.Inspect(0, 2).Oldest
	require.Len(t, oldest, 2)
	assert.Equal(t, purgatory.NoTimeout, oldest[0].Left)
	assert.LessOrEqual(t, oldest[1].Left, hour)
}

func TestATimerHasATick(t *testing.T) {
	clock, err := timer.NewManualTimer(timer.WithTick(7 * time.Second))
	require.NoError(t, err)
	assert.Equal(t, 7*time.Second, timer.Tick(clock))
}
