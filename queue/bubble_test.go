package queue

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

// passes has a goroutine wait in q, and one that gives up, and asserts that both end as they should.
func passes(t *testing.T, q *Queue[int], timeout time.Duration) {
	t.Helper()
	for i := range 3 {
		got := make(chan int, 1)
		go func() {
			item, err := q.Take(background, timeout)
			assert.NoError(t, err)
			got <- item
		}()
		for q.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		require.NoError(t, q.Put(i))
		assert.Equal(t, i, <-got)
		ctx, cancel := context.WithCancel(background)
		gone := make(chan error, 1)
		go func() { _, err := q.Take(ctx, timeout); gone <- err }()
		for q.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
	}
}

func TestAQueueOfABubbleNeedsNoClose(t *testing.T) {
	for range 2 { // each bubble has a timer of its own
		synctest.Test(t, func(t *testing.T) {
			q := newQueue[int](t)
			passes(t, q, time.Hour)
			start := time.Now()
			_, err := q.Take(background, time.Hour)
			require.ErrorIs(t, err, ErrExpired)
			assert.GreaterOrEqual(t, time.Since(start), time.Hour)
			_, err = q.Start(time.Hour, nil) // the bubble ends while it waits
			require.NoError(t, err)
		})
	}
}

// A clock that the test moves knows no bubble, and neither do the channels of waits that have ended.
func TestAQueueWithAManualTimerCrossesBubbles(t *testing.T) {
	q, _ := manual[int](t)
	bubble := func() { synctest.Test(t, func(t *testing.T) { passes(t, q, time.Hour) }) }
	passes(t, q, time.Hour)
	bubble()
	passes(t, q, time.Hour)
	bubble()
	bubble()
	passes(t, q, timer.Never)
	q, _ = manual[int](t)
	var made *Queue[int]
	synctest.Test(t, func(t *testing.T) {
		made, _ = manual[int](t)
		passes(t, made, time.Hour)
	})
	bubble()
	passes(t, made, time.Hour)
	synctest.Test(t, func(t *testing.T) { passes(t, made, time.Hour) })
}

func TestAWaitBeyondABubblesBorderSaysSo(t *testing.T) {
	outside := newQueue[int](t)
	passes(t, outside, time.Hour)
	says := func(t *testing.T, wait func()) {
		t.Helper()
		defer func() {
			assert.ErrorContains(t, recover().(error), "was made outside of a bubble")
		}()
		wait()
		assert.Fail(t, "it has waited")
	}
	all := func(t *testing.T, q *Queue[int]) {
		for _, timeout := range []time.Duration{time.Hour, timer.Never} {
			says(t, func() { _, _ = q.Take(background, timeout) })
			says(t, func() { _, _ = q.Start(timeout, nil) })
			says(t, func() { _, _ = q.Start(timeout, func(int, error) {}) })
		}
		require.NoError(t, q.Put(1), "the lock is free")
		item, err := q.Take(background, time.Hour)
		require.NoError(t, err, "who finds an item needs no timer and no channel")
		assert.Equal(t, 1, item)
	}
	var inside *Queue[int]
	synctest.Test(t, func(t *testing.T) {
		all(t, outside)
		inside = newQueue[int](t)
		passes(t, inside, time.Hour)
	})
	all(t, inside)
	passes(t, outside, time.Hour)
}

// Those who wait outside are served from inside a bubble, their deadlines too: the clock of the queue is not the bubble's.
func TestAPutInsideABubbleServesThoseOutside(t *testing.T) {
	q := newQueue[int](t)
	w, err := q.Start(time.Hour, nil)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) { require.NoError(t, q.Put(1)) })
	gets(t, w, 1)
	check(t, q)
}
