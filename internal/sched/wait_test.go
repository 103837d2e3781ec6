package sched_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/internal/sched"
)

// The race detector ends the process when goroutines of a bubble have channel timers that are over from the start.
func TestSleepsOfNoLengthMakeNoTimer(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		var sleepers sync.WaitGroup
		for range 8 {
			sleepers.Go(func() {
				for range 3000 {
					assert.Equal(t, sched.Elapsed, sched.Sleep(0, nil, nil, nil))
				}
			})
		}
		sleepers.Wait()
	})
	over, token := make(chan struct{}), sched.NewToken()
	close(over)
	assert.Equal(t, sched.Stopped, sched.Sleep(-1, token, nil, over))
	assert.Equal(t, sched.Stopped, sched.Sleep(0, token, over, nil))
	token.Put()
	assert.Equal(t, sched.Taken, sched.Sleep(0, token, over, over))
}
