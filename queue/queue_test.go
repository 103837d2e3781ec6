package queue

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func TestAnItemThatIsThereIsTakenAtOnce(t *testing.T) {
	q := newQueue[string](t)
	require.NoError(t, q.Put("a"))
	require.NoError(t, q.Put("b"))
	for _, want := range []string{"a", "b"} {
		item, err := q.Take(background, 0)
		require.NoError(t, err)
		assert.Equal(t, want, item)
		check(t, q)
	}
	_, err := q.Take(background, 0)
	require.ErrorIs(t, err, ErrExpired)
	check(t, q)
}

func TestATryTakesWithoutWaiting(t *testing.T) {
	q, _ := manual[string](t, WithMaxWaiting(1))
	w := started(t, q)
	for _, timeout := range []time.Duration{0, -1, math.MinInt64} {
		_, err := q.Take(background, timeout)
		require.ErrorIs(t, err, ErrExpired, "it takes no place in a full line")
		_, err = q.Start(timeout, nil)
		require.ErrorIs(t, err, ErrExpired)
	}
	require.NoError(t, q.Put("a"))
	gets(t, w, "a")
	require.NoError(t, q.Put("b"))
	w, err := q.Start(0, nil)
	require.NoError(t, err)
	gets(t, w, "b")
	check(t, q)
}

func TestItemsGoToThoseWhoWaitInOrderOfArrival(t *testing.T) {
	q, _ := manual[int](t)
	var waiters []*Waiter[int]
	for range 5 {
		waiters = append(waiters, started(t, q))
	}
	for i, w := range waiters {
		require.NoError(t, q.Put(i))
		gets(t, w, i)
		check(t, q)
	}
}

func TestATakeThatBlocksGetsTheItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[int](t)
		for round := range 3 {
			got := make(chan int, 1)
			go func() {
				item, err := q.Take(background, time.Minute)
				assert.NoError(t, err)
				got <- item
			}()
			synctest.Wait()
			require.NoError(t, q.Put(round))
			assert.Equal(t, round, <-got)
		}
		check(t, q)
	})
}

func TestATakeEndsWhenItsTimeoutPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[int](t)
		start := time.Now()
		_, err := q.Take(background, time.Minute)
		require.ErrorIs(t, err, ErrExpired)
		require.ErrorIs(t, err, purgatory.ErrExpired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		took := time.Since(start)
		assert.True(t, took >= time.Minute && took < time.Minute+10*time.Millisecond, "it took %v", took)
		assert.EqualValues(t, 1, q.Stats().Expired)
		check(t, q)
	})
}

func TestATakeEndsWithTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[int](t)
		ctx, cancel := context.WithCancelCause(background)
		ended := make(chan error, 1)
		go func() { _, err := q.Take(ctx, time.Minute); ended <- err }()
		synctest.Wait()
		cancel(errCause)
		require.ErrorIs(t, <-ended, errCause)
		require.NoError(t, q.Put(1))
		_, err := q.Take(ctx, time.Minute)
		require.ErrorIs(t, err, errCause, "nothing goes to those who have left")
		assert.Equal(t, 1, q.Stats().Items)
		check(t, q)
	})
}

// The goroutine whose context has ended has not run yet when the item comes.
func TestAnItemPassesThoseWhoHaveLeft(t *testing.T) {
	q, clock := manual[int](t)
	ctx, cancel := context.WithCancelCause(background)
	gone := make(chan error, 1)
	go func() { _, err := q.Take(ctx, timer.Never); gone <- err }()
	for q.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	late, err := q.Start(time.Second, nil)
	require.NoError(t, err)
	stopped, behind := started(t, q), started(t, q)
	// Neither the goroutine nor the timer has the lock before the item is put.
	q.mu.Lock()
	cancel(errCause)
	q.mu.Unlock()
	require.True(t, stopped.Stop())
	q.timer = later{clock, 2 * time.Second}
	require.NoError(t, q.Put(7))
	q.timer = clock
	gets(t, behind, 7)
	fails(t, late, ErrExpired)
	fails(t, stopped, ErrCancelled)
	require.ErrorIs(t, received(t, gone), errCause)
	check(t, q)
}

// Nothing is in the kind between the last one's end and the item.
func TestAnItemIsKeptOfAKindThatAllHaveLeft(t *testing.T) {
	q, clock := manual[int](t)
	at := Place{Kinds: []string{"a kind"}}
	late, err := q.Start(time.Second, nil, at)
	require.NoError(t, err)
	q.timer = later{clock, 2 * time.Second}
	require.NoError(t, q.Put(7, at))
	q.timer = clock
	fails(t, late, ErrExpired)
	check(t, q)
	item, err := q.Take(background, 0, at)
	require.NoError(t, err)
	assert.Equal(t, 7, item)
	check(t, q)
}

// later is a clock that says that it is later.
type later struct {
	*timer.ManualTimer
	by time.Duration
}

func (l later) Now() time.Duration { return l.ManualTimer.Now() + l.by }

func TestThoseBehindALeaverAreServedAtOnce(t *testing.T) {
	leave := map[string]func(q *Queue[struct{}], clock *timer.ManualTimer, w *Waiter[struct{}]){
		"it stops": func(_ *Queue[struct{}], _ *timer.ManualTimer, w *Waiter[struct{}]) { w.Stop() },
		"its deadline passes": func(_ *Queue[struct{}], clock *timer.ManualTimer, _ *Waiter[struct{}]) {
			clock.AdvanceClock(2 * time.Second)
		},
		"its deadline has passed when a unit comes": func(q *Queue[struct{}], clock *timer.ManualTimer, _ *Waiter[struct{}]) {
			q.timer = later{clock, 2 * time.Second}
			_ = q.Put(struct{}{})
			q.timer = clock
		},
	}
	for name, leave := range leave {
		t.Run(name, func(t *testing.T) {
			q, clock := manual[struct{}](t)
			require.NoError(t, q.Put(struct{}{}, Place{N: 2}))
			big, err := q.Start(time.Second, nil, Place{N: 3})
			require.NoError(t, err)
			one, other := started(t, q), started(t, q)
			assert.False(t, over(one), "the first is served first")
			leave(q, clock, big)
			gets(t, one, struct{}{})
			gets(t, other, struct{}{})
			check(t, q)
		})
	}
}

func TestAnItemThatWasHandedOverIsNotLost(t *testing.T) {
	q, _ := manual[int](t)
	w := started(t, q)
	require.NoError(t, q.Put(1))
	assert.False(t, w.Stop(), "it has ended before")
	gets(t, w, 1)
	gets(t, w, 1) // Result may be called again
	assert.Empty(t, q.Close(nil))
	gets(t, w, 1)
	check(t, q)
}

func TestHandGivesOnlyToThoseWhoWait(t *testing.T) {
	q, clock := manual[int](t)
	handed, err := q.Hand(1)
	require.NoError(t, err)
	assert.False(t, handed)
	late, err := q.Start(time.Second, nil)
	require.NoError(t, err)
	q.timer = later{clock, 2 * time.Second}
	handed, err = q.Hand(2)
	q.timer = clock
	require.NoError(t, err)
	assert.False(t, handed, "who has left does not wait")
	fails(t, late, ErrExpired)
	w := started(t, q)
	handed, err = q.Hand(3)
	require.NoError(t, err)
	assert.True(t, handed)
	gets(t, w, 3)
	assert.Zero(t, q.Stats().Items)
	check(t, q)
	q.Close(errCause)
	_, err = q.Hand(4)
	require.ErrorIs(t, err, errCause)
}

func TestHandCountsWhatIsKept(t *testing.T) {
	q, _ := manual[struct{}](t)
	require.NoError(t, q.Put(struct{}{}))
	w := started(t, q, Place{N: 3})
	handed, err := q.Hand(struct{}{})
	require.NoError(t, err)
	assert.False(t, handed, "it needs one more")
	require.NoError(t, q.Put(struct{}{}))
	handed, err = q.Hand(struct{}{})
	require.NoError(t, err)
	assert.True(t, handed)
	gets(t, w, struct{}{})
	assert.Zero(t, q.Stats().Items)
	check(t, q)
}

func TestACallbackRunsOnceOnAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[int](t)
		type result struct {
			item int
			err  error
		}
		results := make(chan result, 10)
		done := func(item int, err error) { results <- result{item, err} }
		start := func(timeout time.Duration) *Waiter[int] {
			w, err := q.Start(timeout, done)
			require.NoError(t, err)
			return w
		}
		require.NoError(t, q.Put(1))
		start(time.Minute) // it is there
		assert.Equal(t, result{1, nil}, <-results)
		start(time.Minute)
		require.NoError(t, q.Put(2))
		assert.Equal(t, result{2, nil}, <-results)
		start(time.Minute)
		require.ErrorIs(t, (<-results).err, ErrExpired)
		require.True(t, start(time.Minute).Stop())
		require.ErrorIs(t, (<-results).err, ErrCancelled)
		w := start(timer.Never)
		q.Close(errCause)
		require.ErrorIs(t, (<-results).err, errCause)
		assert.Nil(t, w.Done())
		_, err := w.Result()
		require.ErrorIs(t, err, ErrInvalid, "Result must not block for ever")
		time.Sleep(time.Hour)
		assert.Empty(t, results)
		check(t, q)
	})
}

// A worker of the timer has claimed the entry of a request when an item comes for it.
func TestACallbackRunsOnceWhereItsDeadlinePassesBesideAnItem(t *testing.T) {
	q, clock := manual[int](t)
	var item, calls int
	first := make(chan struct{})
	_, err := q.Start(time.Second, func(got int, err error) {
		require.NoError(t, err)
		item, calls = got, calls+1
	})
	require.NoError(t, err)
	q.mu.Lock() // the worker waits for the lock
	go func() {
		clock.AdvanceClock(time.Minute)
		close(first)
	}()
	for clock.Pending() > 0 {
		runtime.Gosched()
	}
	q.keepLocked(&q.mu.main, 1, &nowhere, false)
	q.mu.counts.Put++
	q.serveLocked(&q.mu.main, 0) // as of a reading of the clock before the deadline
	q.unlock()
	received(t, first)
	clock.AdvanceClock(time.Minute)
	assert.Equal(t, []int{1, 1}, []int{item, calls})
	assert.Zero(t, q.mu.callbacks)
	check(t, q)
}

func TestAChainOfCallbacksHasABoundedStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const passes = 100_000
		q := newQueue[int](t)
		done := make(chan int)
		var pass func(item int, err error)
		pass = func(item int, err error) {
			if err != nil || item == passes {
				done <- runtime.Stack(make([]byte, 1<<20), false)
				return
			}
			_, err = q.Start(time.Minute, pass)
			assert.NoError(t, err)
			assert.NoError(t, q.Put(item+1))
		}
		pass(0, nil)
		assert.Less(t, <-done, 4096, "bytes of the trace of a stack")
		check(t, q)
	})
}

func TestACallbackThatPanicsOrExitsIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, err := timer.NewSystemTimer(timer.WithPanicHandler(func(any, []byte) {}))
		require.NoError(t, err)
		clock.Start()
		q := newQueue[int](t, WithTimer(clock))
		_, err = q.Start(timer.Never, func(int, error) { panic("a callback") })
		require.NoError(t, err)
		_, err = q.Start(timer.Never, func(int, error) { runtime.Goexit() })
		require.NoError(t, err)
		require.NoError(t, q.Put(1))
		require.NoError(t, q.Put(2))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, q.Shutdown(ctx), "all callbacks have returned")
		clock.Stop()
	})
}

// It has no worker of the timer, and ends nothing but itself, as on one.
func TestACallbackThatPanicsThoughItsTimerIsFullOrStopped(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	for name, prepare := range map[string]func(clock *timer.ManualTimer){
		"full":    func(clock *timer.ManualTimer) { _, _ = clock.AfterFunc(time.Hour, func() {}) },
		"stopped": func(clock *timer.ManualTimer) { clock.Stop() },
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			clock, err := timer.NewManualTimer(timer.WithMaxPending(1))
			require.NoError(t, err)
			q := newQueue[int](t, WithTimer(clock))
			_, err = q.Start(timer.Never, func(int, error) { panic("a callback") })
			require.NoError(t, err)
			prepare(clock)
			require.NoError(t, q.Put(1))
			require.NoError(t, q.Shutdown(t.Context()), name)
			synctest.Wait()
			assert.Contains(t, log.String(), "a callback", name)
			check(t, q)
		})
	}
}

// The cause of a Close is the user's: whatever it says that it is, it reaches those who wait.
func TestACauseThatIsEverythingIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _ := manual[int](t)
		var err error
		go func() { _, err = q.Take(background, timer.Never) }()
		synctest.Wait()
		q.Close(everything{})
		synctest.Wait()
		assert.Equal(t, everything{}, err)
	})
}

// everything is an error that is every other.
type everything struct{}

func (everything) Error() string { return "everything" }
func (everything) Is(error) bool { return true }

func TestACallbackRunsThoughItsTimerIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, err := timer.NewSystemTimer()
		require.NoError(t, err)
		q := newQueue[int](t, WithTimer(clock))
		got := make(chan int, 1)
		_, err = q.Start(timer.Never, func(item int, _ error) { got <- item })
		require.NoError(t, err)
		clock.Stop()
		require.NoError(t, q.Put(1))
		assert.Equal(t, 1, <-got)
		_, err = q.Take(background, time.Second)
		require.ErrorIs(t, err, ErrClosed)
		assert.Contains(t, err.Error(), "timer: stopped")
		_, err = q.Start(timer.Never, nil)
		require.NoError(t, err, "it needs no timer")
		q.Close(nil)
		check(t, q)
	})
}

func TestATimerThatIsFullRefuses(t *testing.T) {
	clock, err := timer.NewManualTimer(timer.WithMaxPending(1))
	require.NoError(t, err)
	q := newQueue[int](t, WithTimer(clock))
	w, err := q.Start(time.Second, nil)
	require.NoError(t, err)
	_, err = q.Take(background, time.Second)
	require.ErrorIs(t, err, ErrFull)
	assert.Equal(t, "queue: full: timer: too many pending entries: the maximum is 1", err.Error())
	assert.EqualValues(t, 1, q.Stats().Refused)
	require.NoError(t, q.Put(1))
	gets(t, w, 1)
	check(t, q)
}

func TestARequestForManyUnitsIsServedWhole(t *testing.T) {
	q, _ := manual[struct{}](t, WithMaxItems(10))
	big, small := started(t, q, Place{N: 10}), started(t, q)
	for range 10 {
		assert.False(t, over(big))
		assert.False(t, over(small), "it does not overtake")
		require.NoError(t, q.Put(struct{}{}))
	}
	gets(t, big, struct{}{})
	assert.False(t, over(small))
	require.NoError(t, q.Put(struct{}{}, Place{N: 3}))
	gets(t, small, struct{}{})
	assert.Equal(t, 2, q.Stats().Items)
	_, err := q.Take(background, 0, Place{N: 11})
	require.ErrorIs(t, err, ErrInvalid, "it can never be met")
	assert.Contains(t, err.Error(), "11 units")
	check(t, q)
}

func TestBadInputIsAnErrorThatNamesIt(t *testing.T) {
	q, _ := manual[struct{}](t, WithMaxItems(10))
	values, _ := manual[int](t, WithAging(time.Second))
	newest, _ := manual[int](t, WithNewestFirst(false, true))
	var noClock *timer.ManualTimer
	take := func(at ...Place) error { _, err := q.Take(background, 0, at...); return err }
	for want, err := range map[string]error{
		"-1 units, must be positive":                   take(Place{N: -1}),
		"11 units, at most 10 are kept":                take(Place{N: 11}),
		"2 units, and only items without a size":       values.Put(1, Place{N: 2}),
		"2 units of 2 kinds, must be of one":           take(Place{N: 2, Kinds: []string{"a", "b"}}),
		"cost -1, must be positive and finite":         take(Place{Cost: -1}),
		"cost NaN, must be":                            take(Place{Cost: math.NaN()}),
		"cost +Inf, must be":                           q.Put(struct{}{}, Place{Cost: math.Inf(1)}),
		"class -1, must be from 0 to 7":                values.Put(1, Place{Class: -1}),
		"class 8, must be from 0 to 7":                 values.Put(1, Place{Class: 8}),
		"class 1 without WithAging or WithNewestFirst": take(Place{Class: 1}),
		"2 kinds, an item is of one":                   q.Put(struct{}{}, Place{Kinds: []string{"a", "b"}}),
		"2 places, must be one":                        take(Place{}, Place{}),
		"invalid: a nil context":                       q.Shutdown(nil),        //nolint:staticcheck // that is what is tested
		"a nil context":                                second(q.Take(nil, 0)), //nolint:staticcheck // the same
		"1 units are put back, 0 are taken":            q.PutBack(struct{}{}),
		"2 units, Hand gives one":                      second(q.Hand(struct{}{}, Place{N: 2})),
		"a nil Option":                                 second(New[int](nil)),
		"WithMaxWaiting(0), must be positive":          second(New[int](WithMaxWaiting(0))),
		"WithMaxItems(-1), must be positive":           second(New[int](WithMaxItems(-1))),
		"WithMaxAge(0s), must be positive":             second(New[int](WithMaxAge(0))),
		"WithAging(-1ns), must be positive":            second(New[int](WithAging(-1))),
		"WithTimer(nil)":                               second(New[int](WithTimer(nil))),
		"invalid: WithTimer(nil)":                      second(New[int](WithTimer(noClock))),
		"WithMaxAge(-1ns), must be positive":           second(New[int](WithMaxAge(-1), WithMaxWaiting(0))),
	} {
		require.ErrorIs(t, err, ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, newest.Put(1, Place{Class: 7}))
	assert.Zero(t, q.Stats().Items, "nothing was kept")
	check(t, q)
	check(t, values)
}

func second[T any](_ T, err error) error { return err }

func TestAnItemPutAfterCloseStaysTheCallers(t *testing.T) {
	q, _ := manual[int](t)
	require.NoError(t, q.Put(1))
	item, err := q.Take(background, 0)
	require.NoError(t, err)
	require.NoError(t, q.Put(2))
	assert.Equal(t, []int{2}, q.Close(errCause))
	require.ErrorIs(t, q.Put(3), errCause)
	require.ErrorIs(t, q.PutBack(item), errCause)
	assert.Empty(t, q.Close(errors.New("another cause")))
	_, err = q.Take(background, timer.Never)
	require.ErrorIs(t, err, errCause, "the first cause stays")
	check(t, q)
}

func TestErrorsSayWhatTheyAreAbout(t *testing.T) {
	q, clock := manual[int](t, WithMaxWaiting(2), WithMaxItems(1), WithMaxAge(time.Second))
	stale := started(t, q, Place{Tenant: "loud"})
	_, err := q.Start(time.Minute, nil, Place{Tenant: "loud"})
	require.EqualError(t, err, `queue: full: 1 of at most 2 wait, 1 of them for tenant "loud"`)
	w := started(t, q)
	_, err = q.Start(time.Minute, nil)
	require.EqualError(t, err, `queue: full: 2 of at most 2 wait, 0 of them for tenant ""`)
	clock.AdvanceClock(time.Minute)
	fails(t, stale, ErrStale)
	_, err = w.Result()
	require.EqualError(t, err, "queue: waited too long: longer than WithMaxAge allows")
	require.NotErrorIs(t, err, ErrExpired)
	require.NoError(t, q.Put(1))
	require.EqualError(t, q.Put(2), "queue: full: 1 units beside 1, at most 1 are kept")
	for err, text := range map[error]string{
		errExpired: "queue: timed out: nothing came in time", errCancelled: "queue: cancelled: by Stop",
		errClosed: "queue: closed: by Close or Shutdown",
	} {
		require.EqualError(t, err, text)
	}
	check(t, q)
}
