package reaper

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/timer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// The clock and the sweep take turns until Stop, and the sweep has the last one.
func TestTheReaperAdvancesAndSweepsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did []string
		var r *ExpirationReaper
		made := make(chan struct{})
		r = Start(func(_ <-chan struct{}, d time.Duration) bool {
			<-made
			assert.Equal(t, time.Minute, d)
			if did = append(did, "clock"); len(did) == 5 {
				r.Stop()
			}
			return false
		}, time.Minute, func() { did = append(did, "sweep") })
		close(made)
		synctest.Wait()
		assert.True(t, r.Ended())
		assert.Equal(t, []string{"clock", "sweep", "clock", "sweep", "clock", "sweep"}, did)
		r.Stop()
	})
}

// Stop does not wait for a clock that blocks, and the reaper has not ended before that returns.
func TestStopDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		r := Start(func(stop <-chan struct{}, _ time.Duration) bool {
			<-stop
			<-leave
			return false
		}, time.Hour, func() {})
		synctest.Wait()
		assert.False(t, r.Ended(), "it runs")
		r.Stop()
		synctest.Wait()
		assert.False(t, r.Ended(), "its clock has not returned")
		close(leave)
		synctest.Wait()
		assert.True(t, r.Ended())
	})
}

// Several reapers share a timer: one is the driver, the others wait for their turn. A reaper
// that is stopped does not wait until its interval is over, and another one drives on.
func TestStopDoesNotWaitOutAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, err := timer.NewSystemTimer()
		require.NoError(t, err)
		defer clock.Stop()
		began := time.Now()
		first := Start(clock.AdvanceClockUntil, time.Hour, func() {})
		synctest.Wait()
		second := Start(clock.AdvanceClockUntil, time.Hour, func() {})
		third := Start(clock.AdvanceClockUntil, time.Hour, func() {})
		synctest.Wait()

		for name, r := range map[string]*ExpirationReaper{"it waited for its turn": second, "it drove": first} {
			r.Stop()
			synctest.Wait()
			assert.True(t, r.Ended(), name)
			assert.Zero(t, time.Since(began), name)
		}

		ran := make(chan struct{})
		_, err = clock.AfterFunc(time.Second, func() { close(ran) })
		require.NoError(t, err)
		<-ran
		assert.Equal(t, time.Second, time.Since(began), "the third one drives")
		third.Stop()
		synctest.Wait()
		assert.True(t, third.Ended())
		assert.Equal(t, time.Second, time.Since(began))
	})
}
