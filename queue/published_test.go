package queue

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

// What went wrong in semaphores and pools of others, or what they promise.

// golang/go 37852, of the semaphore: two units are too few for the first in line. When its context ends, the second gets them,
// and nobody puts anything.
func TestThoseBehindATakeThatIsCancelledAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := counted(t, 2)
		ctx, cancel := context.WithCancel(background)
		big := make(chan error, 1)
		go func() { _, err := q.Take(ctx, time.Hour, Place{N: 3}); big <- err }()
		synctest.Wait()
		small := make(chan error, 1)
		go func() { _, err := q.Take(background, time.Hour, Place{N: 2}); small <- err }()
		synctest.Wait()
		assert.Empty(t, small)
		cancel()
		require.ErrorIs(t, <-big, context.Canceled)
		require.NoError(t, <-small)
		check(t, q)
	})
}

// A request for all units is served although others take and put one all the time.
func TestALargeRequestDoesNotStarve(t *testing.T) {
	const n = 10
	q := counted(t, n, WithMaxItems(n))
	var stop atomic.Bool
	var others sync.WaitGroup
	for range n {
		others.Go(func() {
			for !stop.Load() {
				if _, err := q.Take(background, time.Minute); !assert.NoError(t, err) {
					return
				}
				runtime.Gosched()
				assert.NoError(t, q.Put(struct{}{}))
			}
		})
	}
	for range 50 {
		_, err := q.Take(background, time.Minute, Place{N: n})
		require.NoError(t, err)
		assert.Zero(t, q.Stats().Items)
		require.NoError(t, q.Put(struct{}{}, Place{N: n}))
	}
	stop.Store(true)
	others.Wait()
	check(t, q)
}

// A request that can never be met is refused at once, and holds up nobody.
func TestARequestThatIsTooLargeHoldsUpNobody(t *testing.T) {
	q := counted(t, 2, WithMaxItems(2))
	_, err := q.Take(background, timer.Never, Place{N: 3})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = q.Take(background, 0, Place{N: 2})
	require.NoError(t, err)
	require.NoError(t, q.Put(struct{}{}, Place{N: 2}))
	require.ErrorIs(t, q.Put(struct{}{}), ErrFull, "more than there are")
	check(t, q)
}

// vitess 20310: a storm of clients that have gone stands in the line before one that lives.
func TestAStormOfLeaversIsPassedAtOnce(t *testing.T) {
	const storm = 10_000
	q, clock := manual[int](t)
	for range storm {
		_, err := q.Start(time.Second, nil)
		require.NoError(t, err)
	}
	alive := started(t, q)
	q.timer = later{clock, 2 * time.Second}
	require.NoError(t, q.Put(1))
	gets(t, alive, 1)
	q.timer = clock
	s := q.Stats()
	assert.EqualValues(t, storm, s.Expired)
	assert.Zero(t, s.Waiting)
	check(t, q)
}

// A client that has gone takes nothing, though there is something.
func TestAContextThatHasEndedTakesNothing(t *testing.T) {
	q := counted(t, 1)
	ctx, cancel := context.WithCancelCause(background)
	cancel(errCause)
	for range 100 {
		_, err := q.Take(ctx, time.Minute)
		require.ErrorIs(t, err, errCause)
	}
	assert.Equal(t, 1, q.Stats().Items)
	check(t, q)
}

// An item comes at the moment at which the context ends: either the caller gets it, or the next does, or it is kept.
func TestAnItemThatMeetsTheEndOfItsTakersContextIsNotLost(t *testing.T) {
	q := newQueue[int](t)
	for i := range 2000 {
		ctx, cancel := context.WithCancel(background)
		got := make(chan error, 1)
		go func() { _, err := q.Take(ctx, timer.Never); got <- err }()
		for waiting(q) == 0 {
			runtime.Gosched()
		}
		go cancel()
		require.NoError(t, q.Put(i))
		if received(t, got) != nil {
			item, err := q.Take(background, 0)
			require.NoError(t, err)
			assert.Equal(t, i, item)
		}
		cancel()
	}
	assert.Zero(t, q.Stats().Items)
	check(t, q)
}

// Whatever races, what was put is what was taken, what is kept and what comes back; and nobody waits beside an item.
func TestNoItemIsLostWhateverRaces(t *testing.T) {
	kinds := []string{"a", "b", "c"}
	q := newQueue[int64](t, WithAging(time.Millisecond), WithMaxWaiting(100))
	var put, taken, answers, asked atomic.Int64
	answer := func(item int64, err error) {
		answers.Add(1)
		if err != nil {
			return
		}
		if item%10 == 0 && q.PutBack(item+1, Place{Kinds: kinds[:1]}) == nil {
			return // it comes again
		}
		taken.Add(1)
	}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 500 {
				at := Place{Kinds: kinds[i%3 : i%3+1+(i+g)%(3-i%3)], Tenant: kinds[g%3], Class: i % classes}
				timeout := time.Duration(i%4) * time.Millisecond
				asked.Add(1)
				switch (i + g) % 5 {
				case 0:
					ctx, cancel := context.WithCancel(background)
					go cancel()
					answer(q.Take(ctx, time.Minute, at))
				case 1:
					answer(q.Take(background, timeout, at))
				case 2:
					if _, err := q.Start(timeout, answer, at); err != nil {
						answers.Add(1)
					}
				case 3:
					w, err := q.Start(time.Minute, nil, at)
					if err != nil {
						answers.Add(1)
						break
					}
					w.Stop()
					answer(w.Result())
				default:
					asked.Add(-1)
					item := put.Add(1)
					if handed, _ := q.Hand(item, Place{Kinds: at.Kinds[:1]}); !handed {
						assert.NoError(t, q.Put(item, Place{Kinds: at.Kinds[:1], Tenant: at.Tenant, Class: at.Class}))
					}
				}
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	require.NoError(t, q.Shutdown(ctx))
	check(t, q)
	assert.Equal(t, asked.Load(), answers.Load())
	assert.Equal(t, put.Load(), taken.Load()+int64(len(q.Close(nil))))
	check(t, q)
}
