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

func TestAFullLineRefuses(t *testing.T) {
	q, _ := manual[int](t, WithMaxWaiting(3))
	for range 3 {
		started(t, q)
	}
	_, err := q.Start(time.Minute, func(int, error) { assert.Fail(t, "it is refused") })
	require.ErrorIs(t, err, ErrFull)
	_, err = q.Take(background, time.Minute)
	require.ErrorIs(t, err, ErrFull)
	assert.EqualValues(t, 2, q.Stats().Refused)
	require.NoError(t, q.Put(1))
	started(t, q)
	check(t, q)
}

// A Take that blocks uses what an earlier one has left. It goes on as if there had been none, whatever that was, and however it ended.
func TestAWaiterServesAnyRequestAfterAnyOther(t *testing.T) {
	places := []Place{{}, {Tenant: "a"}, {Tenant: "b", Class: 3, Cost: 7}, {Kinds: []string{"x"}}, {Kinds: []string{"x", "y", ""}, Tenant: "b"}}
	ends := []error{nil, ErrExpired, ErrStale, errCause, ErrClosed}
	for life := range len(places) * len(ends) {
		for next := range len(places) * len(ends) {
			q, clock := manual[int](t, WithMaxWaiting(10), WithMaxAge(time.Hour), WithAging(time.Second))
			for n, life := range []int{life, next} {
				at, want, timeout := places[life%len(places)], ends[life/len(places)], time.Minute
				if want == ErrStale { //nolint:errorlint // one of ends
					timeout = 2 * time.Hour
				}
				ctx, cancel := context.WithCancelCause(background)
				answer := make(chan error, 1)
				go func() {
					item, err := q.Take(ctx, timeout, at)
					assert.True(t, err != nil || item == n+1, "an item of another life: %d", item)
					answer <- err
				}()
				for waiting(q) == 0 {
					runtime.Gosched()
				}
				check(t, q)
				kind := Place{}
				if at.Kinds != nil {
					kind.Kinds = at.Kinds[:1]
				}
				switch want {
				case nil:
					require.NoError(t, q.Put(n+1, kind))
				case errCause: //nolint:errorlint // one of ends
					cancel(errCause)
				case ErrClosed:
					q.Close(nil)
				default:
					clock.AdvanceClock(min(timeout, time.Hour))
				}
				require.ErrorIs(t, <-answer, want, "%+v, the life %d after another one", at, n)
				cancel(nil)
				check(t, q)
				if want == ErrClosed { //nolint:errorlint // one of ends
					break
				}
			}
		}
	}
}

// A tenant that floods the line leaves half of what is left to others (A. Choudhury and E. Hahne, dynamic thresholds).
func TestAFloodLeavesRoomForOtherTenants(t *testing.T) {
	for _, kinds := range [][]string{nil, {"a"}, {"a", "b", "c"}} {
		q, _ := manual[int](t, WithMaxWaiting(100))
		refused := 0
		for range 1000 {
			if _, err := q.Start(timer.Never, nil, Place{Tenant: "loud", Kinds: kinds}); err != nil {
				require.ErrorIs(t, err, ErrFull)
				refused++
			}
		}
		assert.Equal(t, 950, refused)
		for range 25 {
			started(t, q, Place{Tenant: "quiet", Kinds: kinds})
		}
		check(t, q)
		for range 50 {
			at := Place{}
			if kinds != nil {
				at.Kinds = kinds[:1]
			}
			require.NoError(t, q.Put(0, at))
		}
		check(t, q)
		assert.Equal(t, 25, q.Stats().Waiting)
		q.Close(nil)
		check(t, q)
	}
}

// A line is full of those who wait: who need not wait is served, by Start as by Take.
func TestAFullLineServesWhoNeedNotWait(t *testing.T) {
	q, _ := manual[int](t, WithMaxWaiting(1))
	a := Place{Kinds: []string{"a"}}
	require.NoError(t, q.Put(1, a))
	require.NoError(t, q.Put(2, a))
	waits := started(t, q)
	item, err := q.Take(background, time.Second, a)
	require.NoError(t, err)
	assert.Equal(t, 1, item)
	gets(t, started(t, q, a), 2)
	_, err = q.Start(time.Second, nil, a)
	require.ErrorIs(t, err, ErrFull)
	assert.False(t, over(waits))
	s := q.Stats()
	assert.Equal(t, []int64{2, 1, 1}, []int64{s.Served, s.Refused, int64(s.Waiting)})
	check(t, q)
}

// Who is refused may be the first to see that the first in line has left: those behind that one are served nevertheless.
func TestWhoIsRefusedServesThoseBehindOneWhoHasLeft(t *testing.T) {
	for name, refused := range map[string]func(q *Queue[struct{}]) error{
		"Put":     func(q *Queue[struct{}]) error { return q.Put(struct{}{}, Place{N: 5}) },
		"PutBack": func(q *Queue[struct{}]) error { return q.PutBack(struct{}{}, Place{N: 4}) },
		"Hand":    func(q *Queue[struct{}]) error { return second(q.Hand(struct{}{}, Place{N: 2})) },
	} {
		q, clock := manual[struct{}](t, WithMaxItems(5))
		require.NoError(t, q.Put(struct{}{}, Place{N: 3}))
		var err error
		_, _ = clock.AfterFunc(time.Second, func() { err = refused(q) }) // its entry is before that of the first
		first, e := q.Start(time.Second, nil, Place{N: 5})
		require.NoError(t, e)
		small := started(t, q, Place{N: 2})
		clock.AdvanceClock(time.Second)
		require.Error(t, err, name)
		fails(t, first, ErrExpired)
		gets(t, small, struct{}{})
		assert.Equal(t, 1, q.Stats().Items, name)
		check(t, q)
	}
}

// Likewise one that comes after who has left, before the others, and does not stay.
func TestWhoDoesNotStayServesThoseBehindOneWhoHasLeft(t *testing.T) {
	for _, c := range []struct {
		timeout time.Duration
		option  Option
		pending int // the most entries of the timer
		want    error
	}{
		{0, WithMaxItems(5), 0, ErrExpired},
		{time.Second, WithMaxWaiting(2), 0, ErrFull},
		{time.Second, WithMaxItems(5), 2, ErrFull},
	} {
		clock, err := timer.NewManualTimer(timer.WithMaxPending(c.pending))
		require.NoError(t, err)
		q := newQueue[struct{}](t, WithTimer(clock), c.option)
		kind := []string{"a"}
		require.NoError(t, q.Put(struct{}{}, Place{N: 3, Kinds: kind}))
		_, _ = clock.AfterFunc(time.Second, func() { // its entry is before that of the first
			_, _ = clock.AfterFunc(time.Hour, func() {})
			_, err = q.Take(background, c.timeout, Place{N: 4, Tenant: "a", Kinds: kind})
		})
		first, e := q.Start(time.Second, nil, Place{N: 4, Tenant: "a", Kinds: kind})
		require.NoError(t, e)
		small := started(t, q, Place{N: 3, Tenant: "b", Kinds: kind})
		clock.AdvanceClock(time.Second)
		require.ErrorIs(t, err, c.want)
		fails(t, first, ErrExpired)
		gets(t, small, struct{}{})
		assert.NotContains(t, q.mu.kinds, "a", "it has no items and no line")
		check(t, q)
	}
}

func TestKeptItemsAreBounded(t *testing.T) {
	q, _ := manual[int](t, WithMaxItems(2))
	require.NoError(t, q.Put(1))
	require.NoError(t, q.Put(2, Place{Kinds: []string{"a"}}))
	require.ErrorIs(t, q.Put(3), ErrFull)
	assert.EqualValues(t, 1, q.Stats().PutRefused)
	w := started(t, q, Place{Kinds: []string{"b"}})
	require.ErrorIs(t, q.Put(3, Place{Kinds: []string{"b"}}), ErrFull)
	assert.False(t, over(w), "as a bound that no item is beyond, not even for a moment")
	check(t, q)

	units, _ := manual[struct{}](t, WithMaxItems(2))
	both := started(t, units, Place{N: 2})
	require.NoError(t, units.Put(struct{}{}))
	require.NoError(t, units.Put(struct{}{}), "the last for which there is room, and for which somebody waits")
	assert.True(t, over(both))

	q, _ = manual[int](t) // a burst leaves little
	for i := range 1000 {
		require.NoError(t, q.Put(i))
	}
	for range 1000 {
		_, err := q.Take(background, 0)
		require.NoError(t, err)
	}
	check(t, q)
}

func TestWhoHasWaitedTooLongIsRefused(t *testing.T) {
	q, clock := manual[int](t, WithMaxAge(time.Second))
	soon, err := q.Start(time.Millisecond, nil)
	require.NoError(t, err)
	age, err := q.Start(time.Minute, nil)
	require.NoError(t, err)
	never := started(t, q)
	clock.AdvanceClock(999 * time.Millisecond)
	fails(t, soon, ErrExpired)
	assert.False(t, over(age) || over(never))
	clock.AdvanceClock(2 * time.Millisecond)
	fails(t, age, ErrStale)
	fails(t, never, ErrStale)
	assert.EqualValues(t, 3, q.Stats().Expired)
	check(t, q)
}

func TestWhatIsPutBackComesFirst(t *testing.T) {
	q, _ := manual[string](t, WithMaxItems(3))
	for _, item := range []string{"a", "b", "c"} {
		require.NoError(t, q.Put(item, Place{Tenant: item}))
	}
	take := func() string {
		item, err := q.Take(background, 0)
		require.NoError(t, err)
		return item
	}
	a, b := take(), take()
	require.NoError(t, q.Put("d"))
	require.NoError(t, q.Put("e"))
	require.NoError(t, q.PutBack(a), "past the bound")
	require.NoError(t, q.PutBack(b))
	require.ErrorIs(t, q.PutBack(b), ErrInvalid, "no more than were taken")
	check(t, q)
	for _, want := range []string{"a", "b", "c", "d", "e"} {
		assert.Equal(t, want, take())
		check(t, q)
	}
	w := started(t, q)
	require.NoError(t, q.PutBack("e"))
	gets(t, w, "e")
	require.NoError(t, q.PutBack("e", Place{Tenant: "x"}))
	assert.Equal(t, []string{"e"}, q.Close(nil))
	s := q.Stats()
	assert.Equal(t, []int64{5, 4, 8}, []int64{s.Put, s.Back, s.Handed})
	check(t, q)
}

// Whatever their classes are, and also where the newest item comes first.
func TestItemsThatArePutBackKeepTheirOrder(t *testing.T) {
	for _, options := range [][]Option{{WithAging(time.Second)}, {WithNewestFirst(false, true)}, {WithNewestFirst(true, false)}} {
		q, clock := manual[int](t, options...)
		for range classes {
			require.NoError(t, q.Put(-1))
			_, err := q.Take(background, 0)
			require.NoError(t, err)
		}
		for i := range classes {
			require.NoError(t, q.PutBack(i, Place{Class: classes - 1 - i}))
			clock.AdvanceClock(time.Millisecond)
			require.NoError(t, q.Put(classes+i))
		}
		for want := range classes {
			item, err := q.Take(background, 0)
			require.NoError(t, err)
			assert.Equal(t, want, item)
		}
		check(t, q)
	}
}

func TestOneWaiterWaitsForSeveralKinds(t *testing.T) {
	q, _ := manual[string](t)
	a, b, ab := Place{Kinds: []string{"a"}}, Place{Kinds: []string{"b"}}, Place{Kinds: []string{"b", "a", "b"}}
	both, onlyA, onlyB := started(t, q, ab), started(t, q, a), started(t, q, b)
	check(t, q)
	require.NoError(t, q.Put("of no kind"))
	require.NoError(t, q.Put("c", Place{Kinds: []string{"c"}}))
	check(t, q)
	require.NoError(t, q.Put("a1", a))
	gets(t, both, "a1")
	check(t, q)
	require.NoError(t, q.Put("b1", b))
	gets(t, onlyB, "b1")
	assert.False(t, over(onlyA))
	both = started(t, q, ab)
	require.True(t, both.Stop())
	check(t, q)
	require.NoError(t, q.Put("a2", a))
	gets(t, onlyA, "a2")
	require.NoError(t, q.Put("a3", a))
	require.NoError(t, q.Put("b3", b))
	for _, want := range []string{"b3", "a3"} {
		item, err := q.Take(background, 0, ab)
		require.NoError(t, err)
		assert.Equal(t, want, item, "in the order of the kinds")
	}
	check(t, q)
	assert.Len(t, q.mu.kinds, 2, "those that are empty are forgotten")
	assert.ElementsMatch(t, []string{"of no kind", "c"}, q.Close(nil))
	check(t, q)
}

// Who waits for several kinds finds an item of the second, while somebody else waits for the first.
func TestAWaiterIsServedByAnyOfItsKinds(t *testing.T) {
	q, _ := manual[int](t)
	first := started(t, q, Place{Kinds: []string{"a"}})
	require.NoError(t, q.Put(1, Place{Kinds: []string{"b"}}))
	w := started(t, q, Place{Kinds: []string{"a", "b", "c"}})
	gets(t, w, 1)
	check(t, q)
	require.NoError(t, q.Put(2, Place{Kinds: []string{"a"}}))
	gets(t, first, 2)
	check(t, q)
	_, err := q.Take(background, 0, Place{Kinds: []string{"a", "b", "c"}})
	require.ErrorIs(t, err, ErrExpired)
	assert.Len(t, q.mu.kinds, 1)
	check(t, q)
}

func TestCloseEndsAllAndReturnsWhatIsKept(t *testing.T) {
	q, clock := manual[int](t)
	calls := 0
	_, err := q.Start(timer.Never, func(_ int, err error) {
		require.ErrorIs(t, err, errCause)
		assert.Empty(t, q.Close(nil), "it may be called from a callback")
		calls++
	})
	require.NoError(t, err)
	w, kind := started(t, q), started(t, q, Place{Kinds: []string{"a", "b"}, Tenant: "x"})
	for i := range 3 {
		require.NoError(t, q.Put(i, Place{Kinds: []string{"c"}}))
	}
	assert.Equal(t, []int{0, 1, 2}, q.Close(errCause))
	clock.AdvanceClock(time.Millisecond)
	assert.Equal(t, 1, calls)
	fails(t, w, errCause)
	fails(t, kind, errCause)
	check(t, q)
	units, _ := manual[struct{}](t)
	require.NoError(t, units.Put(struct{}{}, Place{N: 5}))
	assert.Len(t, units.Close(nil), 5)
	_, err = units.Take(background, 0)
	require.ErrorIs(t, err, ErrClosed)
	check(t, units)
}

func TestADrainServesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[int](t)
		blocked := make(chan struct{})
		_, err := q.Start(timer.Never, func(int, error) { <-blocked })
		require.NoError(t, err)
		w := started(t, q)
		ended := make(chan error, 1)
		go func() { ended <- q.Shutdown(background) }()
		synctest.Wait()
		_, err = q.Take(background, time.Minute)
		require.ErrorIs(t, err, ErrClosed)
		_, err = q.Start(time.Minute, nil)
		require.ErrorIs(t, err, ErrClosed)
		for i := range 3 {
			require.NoError(t, q.Put(i), "those who wait are served")
		}
		gets(t, w, 1)
		synctest.Wait()
		assert.Empty(t, ended, "a callback has not returned")
		close(blocked)
		require.NoError(t, <-ended)
		require.ErrorIs(t, q.Put(3), ErrClosed)
		require.NoError(t, q.Shutdown(background), "again")
		_, err = q.Take(background, time.Minute)
		require.ErrorIs(t, err, ErrClosed, "though there is an item")
		assert.Equal(t, []int{2}, q.Close(nil))
		check(t, q)
	})
}

// A drain is over when the last one has ended, in whatever way it waits and ends.
func TestADrainIsOverWhenNobodyWaits(t *testing.T) {
	for name, end := range map[string]func(q *Queue[int], w *Waiter[int], leave func()){
		"Take, served":   func(q *Queue[int], w *Waiter[int], _ func()) { w.Stop(); assert.NoError(t, q.Put(1)) },
		"Take, has left": func(_ *Queue[int], w *Waiter[int], leave func()) { w.Stop(); leave() },
		"Start, served": func(q *Queue[int], _ *Waiter[int], leave func()) {
			leave()
			synctest.Wait()
			assert.NoError(t, q.Put(1))
		},
		"Start, stopped":  func(_ *Queue[int], w *Waiter[int], leave func()) { leave(); synctest.Wait(); w.Stop() },
		"Start, too late": func(_ *Queue[int], _ *Waiter[int], leave func()) { leave(); time.Sleep(time.Hour) },
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue[int](t)
			w, err := q.Start(time.Minute, nil)
			require.NoError(t, err)
			ctx, leave := context.WithCancel(background)
			defer leave()
			go func() { _, _ = q.Take(ctx, timer.Never) }()
			synctest.Wait()
			over := make(chan error, 1)
			drain, cut := context.WithCancel(background)
			defer cut()
			go func() { over <- q.Shutdown(drain) }()
			synctest.Wait()
			end(q, w, leave)
			synctest.Wait()
			assert.Len(t, over, 1, name)
		})
	}
}

func TestADrainThatIsCutSaysHowManyCallbacksBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue[int](t)
		blocked := make(chan struct{})
		for range 3 {
			_, err := q.Start(timer.Never, func(int, error) { <-blocked })
			require.NoError(t, err)
		}
		w := started(t, q)
		ctx, cancel := context.WithCancelCause(background)
		time.AfterFunc(time.Minute, func() { cancel(errCause) })
		start := time.Now()
		err := q.Shutdown(ctx)
		assert.Equal(t, time.Minute+drainFor, time.Since(start))
		require.ErrorIs(t, err, errCause)
		require.EqualError(t, err, "queue: the cause; 3 callbacks have not returned")
		fails(t, w, errCause)
		_, err = q.Take(background, 0)
		require.ErrorIs(t, err, ErrClosed, "the cause is for those who waited")
		close(blocked)
		require.NoError(t, q.Shutdown(background))
		check(t, q)
	})
}

// A select between the end of the line and that of the context would choose at random.
func TestADrainOfNobodySucceedsAlthoughItsContextHasEnded(t *testing.T) {
	ended, cancel := context.WithCancelCause(background)
	cancel(errCause)
	for range 64 {
		q := counted(t, 1)
		require.NoError(t, q.Shutdown(ended))
		assert.Len(t, q.Close(nil), 1)
	}
}

func TestADrainOf20000ThatIsCutAnswersEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 5_000
		q := newQueue[int](t, WithMaxWaiting(5*each))
		var answers, items atomic.Int64
		answer := func(_ int, err error) {
			answers.Add(1)
			if err == nil {
				items.Add(1)
			} else {
				assert.ErrorIs(t, err, errCause)
			}
		}
		var takers sync.WaitGroup
		var waiters []*Waiter[int]
		for i := range each {
			tenant := Place{Tenant: string(rune('a' + i%7))}
			takers.Go(func() { answer(q.Take(background, time.Hour)) })
			takers.Go(func() { answer(q.Take(background, timer.Never, tenant)) })
			_, err := q.Start(time.Hour, answer, Place{Kinds: []string{"a", "b"}})
			require.NoError(t, err)
			waiters = append(waiters, started(t, q))
		}
		synctest.Wait()
		require.Equal(t, 4*each, q.Stats().Waiting)
		ctx, cancel := context.WithCancelCause(background)
		defer cancel(nil)
		var put atomic.Int64
		var putters sync.WaitGroup
		for i := range 4 {
			putters.Go(func() {
				var at []Place
				if i%2 == 0 {
					at = []Place{{Kinds: []string{"b"}}}
				}
				for n := range each {
					if err := q.Put(n, at...); err != nil {
						assert.ErrorIs(t, err, ErrClosed)
						return
					}
					if put.Add(1) == 2*each {
						cancel(errCause)
					}
					runtime.Gosched()
				}
			})
		}
		require.Equal(t, errCause, q.Shutdown(ctx), "all callbacks have returned")
		putters.Wait()
		takers.Wait()
		for _, w := range waiters {
			answer(w.Result())
		}
		assert.EqualValues(t, 4*each, answers.Load())
		returned := len(q.Close(nil))
		s := q.Stats()
		assert.Equal(t, put.Load(), s.Put)
		assert.Equal(t, s.Put, items.Load()+int64(returned), "put = handed + returned")
		assert.Equal(t, items.Load(), s.Served)
		assert.EqualValues(t, 4*each, s.Served+s.Left)
		assert.True(t, s.Served > 0 && s.Left >= each, "it was cut: %+v", s)
		check(t, q)
	})
}

func TestStatsSayWhoWaitsForHowLong(t *testing.T) {
	q, clock := manual[int](t, WithAging(time.Second))
	started(t, q, Place{Tenant: "a", Class: 5})
	clock.AdvanceClock(time.Second)
	started(t, q, Place{Tenant: "a"})
	started(t, q, Place{Tenant: "b", Kinds: []string{"x", "y"}})
	clock.AdvanceClock(time.Second)
	require.NoError(t, q.Put(1, Place{Tenant: "c", Kinds: []string{"z"}}))
	assert.Equal(t, Stats{
		Put: 1, Waiting: 3, Items: 1, Oldest: 2 * time.Second,
		Tenants: map[string]Tenant{"a": {2, 0, 2 * time.Second}, "b": {2, 0, time.Second}, "c": {0, 1, 0}},
	}, q.Stats())
	q.Close(nil)
	assert.Equal(t, Stats{Put: 1, Left: 3, Tenants: map[string]Tenant{}}, q.Stats())

	q, _ = manual[int](t) // a tenant that only owes something is not named
	for _, at := range []Place{{Tenant: "a", Cost: 10}, {Tenant: "b"}, {Tenant: "b"}} {
		require.NoError(t, q.Put(1, at))
	}
	_, err := q.Take(t.Context(), 0)
	require.NoError(t, err)
	assert.Equal(t, Stats{Put: 3, Handed: 1, Served: 1, Items: 2, Tenants: map[string]Tenant{"b": {0, 2, 0}}}, q.Stats())
	require.NoError(t, q.PutBack(1, Place{Tenant: "a"})) // one that was put back is nobody's
	assert.Equal(t, Stats{Put: 3, Back: 1, Handed: 1, Served: 1, Items: 3, Tenants: map[string]Tenant{"b": {0, 2, 0}}}, q.Stats())
}
