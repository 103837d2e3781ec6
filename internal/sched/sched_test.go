package sched

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAThreadYieldsOnceInAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		since := GiveWay(time.Time{})
		assert.Equal(t, start, since)
		time.Sleep(time.Millisecond - 1)
		assert.Equal(t, start, GiveWay(since), "not in the first")
		time.Sleep(time.Nanosecond)
		since = GiveWay(since)
		assert.Equal(t, start.Add(time.Millisecond), since)
		assert.Equal(t, since, GiveWay(since))
	})
}

// The race detector ends the process when goroutines of a bubble have channel timers that are over from the start.
func TestASleepOfNoLengthMakesNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 8 {
			go func() {
				for range 3000 {
					assert.Equal(t, Elapsed, Sleep(0, nil, nil, nil))
				}
			}()
		}
	})
	over := make(chan struct{})
	close(over)
	assert.Equal(t, []Woken{Stopped, Stopped}, []Woken{Sleep(0, nil, over, nil), Sleep(-1, NewToken(), nil, over)})
}
