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
