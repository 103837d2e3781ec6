package timer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/sched"
)

// Time goes differently in a bubble. A timer of the other side says so, before it schedules or drives anything.
func TestATimerOfTheOtherSideOfABubbleSaysSo(t *testing.T) {
	check := func(t *testing.T, timer *SystemTimer) {
		for name, use := range map[string]func(){
			"AddAt":        func() { _ = timer.AddAt(&newTask(nil).TaskEntry, timer.Now(), timer.Now()+time.Second) },
			"AfterFunc":    func() { _, _ = timer.AfterFunc(time.Second, func() {}) },
			"AdvanceClock": func() { timer.AdvanceClock(0) },
		} {
			require.PanicsWithError(t, sched.ErrBorder.Error(), use, name)
		}
		assert.Zero(t, timer.Pending())
	}
	outside, err := NewSystemTimer()
	require.NoError(t, err)
	outside.Start()
	var inside *SystemTimer
	synctest.Test(t, func(t *testing.T) {
		check(t, outside)
		inside, err = NewSystemTimer()
		require.NoError(t, err)
		time.Sleep(50 * 365 * 24 * time.Hour)
		assert.Equal(t, 50*365*24*time.Hour, inside.Now(), "a long time in one bubble is no other side")
	})
	check(t, inside)
	ran := make(chan struct{})
	_, err = outside.AfterFunc(0, func() { close(ran) })
	require.NoError(t, err, "it works on where it belongs")
	<-ran
	outside.Stop()
	require.Eventually(t, outside.Idle, time.Minute, time.Millisecond)
}
