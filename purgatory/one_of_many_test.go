package purgatory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// queueOf is a queue as the README shows it.
type queueOf[K comparable] struct {
	p     *purgatory.DelayedOperationPurgatory[K]
	key   K
	items atomic.Int64
}

func (q *queueOf[K]) take() (item struct{}, ok bool) {
	for n := q.items.Load(); n > 0; n = q.items.Load() {
		if q.items.CompareAndSwap(n, n-1) {
			return item, true
		}
	}
	return item, false
}

func (q *queueOf[K]) put() {
	q.items.Add(1)
	q.p.CheckAndCompleteInOrder(q.key)
}

var errInReady = errors.New("of ready's")

// Whatever ends the waits of a queue (Close, Shutdown, a context, a timeout) and whenever ready
// panics: the items that were handed out and those that are left are the items that were put. For
// QUEUE_ROUNDS rounds.
func TestAQueueLosesNoItemWhateverEndsItsWaits(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	if n, err := strconv.Atoi(os.Getenv("QUEUE_ROUNDS")); err == nil {
		rounds = n
	}
	seed := uint64(time.Now().UnixNano())
	var handed, left, put int64
	for round := range rounds {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		opts := []purgatory.Option{purgatory.WithPanicHandler(func(any, []byte) {})}
		if random.IntN(2) == 0 {
			opts = append(opts, purgatory.WithFirstInFirstOut())
		}
		p, err := purgatory.New[string]("queue", opts...)
		require.NoError(t, err)
		q := &queueOf[string]{p: p, key: "items"}
		h, n := q.round(t, random)
		handed, left, put = handed+h, left+q.items.Load(), put+n
		require.Equal(t, put, handed+left, "round %d of seed %d: put, and handed out or left", round, seed)
	}
	t.Logf("%d put, %d handed out, %d left, seed %d", put, handed, left, seed)
	assert.Positive(t, handed)
	assert.Positive(t, left)
}

func (q *queueOf[K]) round(t *testing.T, random *rand.Rand) (handed, put int64) {
	var got atomic.Int64
	var group sync.WaitGroup
	for range 3 {
		random := rand.New(rand.NewPCG(random.Uint64(), 0))
		group.Go(func() {
			for range 3 {
				if q.await(random) {
					got.Add(1)
				}
			}
		})
	}
	put = int64(2 + random.IntN(6))
	group.Go(func() {
		for range put {
			q.put()
			runtime.Gosched()
		}
	})
	group.Go(func() {
		for range random.IntN(60) {
			runtime.Gosched()
		}
		if random.IntN(2) == 0 {
			_ = q.p.Close()
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(50))*time.Microsecond)
		defer cancel()
		_ = q.p.Shutdown(ctx)
	})
	group.Wait()
	require.NoError(t, q.p.Shutdown(context.Background()))
	return got.Load(), put
}

// await waits for an item, and reports whether it has one.
func (q *queueOf[K]) await(random *rand.Rand) (has bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timeout := []time.Duration{hour, hour, 10 * time.Microsecond, 0}[random.IntN(4)]
	panics, leaves, calls := random.IntN(6), random.IntN(8), 0
	defer func() {
		if v := recover(); v != nil && v != errInReady { //nolint:errorlint // it is the value that was thrown
			panic(v)
		}
	}()
	_, err := purgatory.AwaitValue(ctx, q.p, timeout, func() (struct{}, bool) {
		calls++
		if calls == panics {
			panic(errInReady)
		}
		if calls == leaves {
			cancel() // before the condition takes something
		}
		return q.take()
	}, q.key)
	return err == nil
}

// An unhashable key panics before anything is taken, and a closed purgatory refuses before.
func TestBadInputTakesNoItem(t *testing.T) {
	p := onManualClock[any](t, purgatory.WithFirstInFirstOut())
	q := &queueOf[any]{p: p, key: "items"}
	q.put()
	var bad any = []int{1}
	for name, call := range map[string]func(){
		"AwaitValue":              func() { _, _ = purgatory.AwaitValue(t.Context(), p, hour, q.take, any("items"), bad) },
		"AwaitValue, many keys":   func() { _, _ = purgatory.AwaitValue(t.Context(), p, hour, q.take, any(1), 2, 3, 4, 5, bad) },
		"StartWait":               func() { _, _ = p.StartWait(hour, func() bool { _, ok := q.take(); return ok }, "items", bad) },
		"CheckAndCompleteInOrder": func() { p.CheckAndCompleteInOrder(bad) },
		"SignalInOrder":           func() { p.SignalInOrder(bad) },
		"CancelForKey":            func() { p.CancelForKey(bad, nil) },
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				assert.ErrorContains(t, err, "hash of unhashable type", name)
			}()
			call()
		}()
		assert.EqualValues(t, 1, q.items.Load(), name)
	}
	empty(t, p)
	require.NoError(t, p.Close())
	_, err := purgatory.AwaitValue(t.Context(), p, hour, q.take, any("items"))
	assert.ErrorIs(t, err, purgatory.ErrClosed)
	_, err = p.StartWait(hour, func() bool { _, ok := q.take(); return ok }, "items")
	assert.ErrorIs(t, err, purgatory.ErrClosed)
	q.put()
	p.SignalInOrder("items")
	assert.Zero(t, p.CancelForKey("items", nil))
	assert.EqualValues(t, 2, q.items.Load(), "what is put afterwards is left")
}

// Workers wait for jobs of three types under three keys. Each gets one job, whichever comes first,
// and the others go to the next in line. One of those who wait leaves while jobs are put: if the job
// does not reach it, the next gets it, without another check.
func TestAWorkerThatWaitsForThreeTypesGetsOneJob(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	types := []string{"mail", "print", "scan"}
	for _, opts := range [][]purgatory.Option{nil, {purgatory.WithFirstInFirstOut()}} {
		p, err := purgatory.New[string]("jobs", opts...)
		require.NoError(t, err)
		left := 0 // times that who left has not got a job
		for round := range rounds {
			var jobs [3]queueOf[string]
			take := func() (kind int, ok bool) {
				for kind := range jobs {
					if _, ok := jobs[kind].take(); ok {
						return kind, true
					}
				}
				return 0, false
			}
			for kind := range jobs {
				jobs[kind].p, jobs[kind].key = p, types[kind]
			}
			var got [3]atomic.Int64
			var waiting sync.WaitGroup
			leaver, leave := context.WithCancel(t.Context())
			for worker := range 4 {
				ctx := t.Context()
				if worker == round%4 {
					ctx = leaver
				}
				waiting.Go(func() {
					switch kind, err := purgatory.AwaitValue(ctx, p, time.Hour, take, types...); {
					case err == nil:
						got[kind].Add(1)
					case errors.Is(err, context.Canceled):
						left++ // one worker
					default:
						t.Error(err)
					}
				})
			}
			for p.NumDelayed() < 4 {
				runtime.Gosched()
			}
			var putters sync.WaitGroup
			for kind := range jobs {
				putters.Go(jobs[kind].put)
			}
			if round%2 == 0 {
				putters.Go(leave)
			}
			putters.Wait()
			leave()
			put := int64(3)
			if p.NumDelayed() > 0 { // who leaves has got a job, or is about to leave
				jobs[round%3].put()
				put++
			}
			require.Eventually(t, func() bool { return p.NumDelayed() == 0 }, time.Minute, time.Microsecond, "round %d: a worker waits beside a job", round)
			waiting.Wait()
			for kind := range jobs {
				put -= got[kind].Load() + jobs[kind].items.Load()
			}
			require.Zero(t, put, "round %d: a job was lost", round)
			leave()
		}
		assert.Positive(t, left)
		assert.Less(t, left, rounds)
		p.Close()
	}
}

// slots are items of which an operation takes several at once.
type slots struct{ free int }

func (s *slots) take(n int) func() bool {
	return func() bool {
		if s.free < n {
			return false
		}
		s.free -= n
		return true
	}
}

// Two slots are too few for the first in line. When it leaves, the second one gets them, and nobody calls a check (golang/go
// 37852, of the semaphore).
func TestThoseBehindALeaverAreTried(t *testing.T) {
	for name, leave := range map[string]func(p *purgatory.Purgatory[string], first *op){
		"cancelled":      func(p *purgatory.Purgatory[string], first *op) { p.Cancel(first, nil) },
		"forced":         func(p *purgatory.Purgatory[string], first *op) { p.ForceComplete(first) },
		"expired":        func(p *purgatory.Purgatory[string], _ *op) { p.AdvanceClock(time.Minute) },
		"its connection": func(p *purgatory.Purgatory[string], _ *op) { p.CancelForKey("connection", nil) },
		"satisfied by its other key": func(p *purgatory.Purgatory[string], first *op) {
			first.try = func() bool { return true }
			p.CheckAndComplete("connection")
		},
	} {
		for _, keys := range [][]string{{"line", "connection"}, {"connection", "line"}} {
			for _, shards := range []int{1, 64} {
				t.Run(fmt.Sprint(name, keys, shards), func(t *testing.T) {
					p := onManualClock[string](t, purgatory.WithFirstInFirstOut(), purgatory.WithWatcherShards(shards))
					s := &slots{}
					first, second := &op{try: s.take(3)}, &op{try: s.take(2)}
					submit(t, p, first, time.Minute, keys...)
					submit(t, p, second, time.Hour, "line")
					s.free = 2
					require.Zero(t, p.CheckAndCompleteInOrder("line"), "the first in line needs three")
					leave(p, first)
					endsSoon(t, second, operation.Satisfied)
				})
			}
		}
	}
}

// The lock of the line is not free when the first leaves it by another key: so whoever holds it takes out the first.
func TestThoseBehindALeaverAreTriedThoughTheLineWasBusy(t *testing.T) {
	p := onManualClock[string](t, purgatory.WithFirstInFirstOut(), purgatory.WithWatcherShards(4096))
	other := "connection"
	for i := 0; p.SameShard("line", other); i++ {
		other = fmt.Sprint("connection", i)
	}
	s := &slots{}
	first, second := &op{try: s.take(3)}, &op{try: s.take(2)}
	submit(t, p, first, time.Minute, other, "line")
	submit(t, p, second, time.Hour, "line")
	s.free = 2
	require.Zero(t, p.CheckAndCompleteInOrder("line"), "the first in line needs three")
	first.try = func() bool { return true }
	p.LeaveStale("line", func() { assert.Equal(t, 1, p.CheckAndComplete(other)) })
	ended(t, first, operation.Satisfied)
	p.Waiting("line") // takes the lock, and lets go of it
	endsSoon(t, second, operation.Satisfied)
}

// While no worker of the timer runs, a check in order passes over the first in line, whose deadline has
// passed, and ends it.
func TestNothingGoesToAPassedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t, purgatory.WithFirstInFirstOut(), purgatory.WithoutReaper())
		defer p.Close()
		s := &slots{}
		first, second := &op{try: s.take(1)}, &op{try: s.take(1)}
		submit(t, p, first, time.Minute, "line")
		submit(t, p, second, time.Hour, "line")
		time.Sleep(2 * time.Minute)
		s.free = 1
		assert.Equal(t, 2, p.CheckAndCompleteInOrder("line"))
		ended(t, first, operation.Expired)
		ended(t, second, operation.Satisfied)
		assert.EqualValues(t, 1, p.Stats().PassedOver)
	})
}

// A check that comes between the end of the context and the return of Await does not call the condition.
func TestNothingGoesToAClientThatHasLeft(t *testing.T) {
	p := open[string](t)
	for range 200 {
		ctx, leave := context.WithCancel(t.Context())
		var left, taken atomic.Bool
		var calls atomic.Int32
		wait := inBackground(func() {
			err := p.Await(ctx, time.Hour, func() bool {
				taken.Store(taken.Load() || left.Load())
				calls.Add(1)
				return taken.Load()
			}, "a")
			assert.ErrorIs(t, err, context.Canceled)
		})
		eventually(t, func() bool { return calls.Load() == 2 }, "the wait begins")
		leave()
		left.Store(true)
		p.CheckAndComplete("a")
		wait()
		require.False(t, taken.Load())
	}
}

// Many goroutines await items for one key, and use each other's waits again, while checks of
// every kind, timeouts and cancellations race. Whoever has taken an item is told so, ready runs
// only while its Await does, and no item stays beside a wait.
func TestAwaitsThatAreUsedAgainLoseNoItem(t *testing.T) {
	for name, opts := range map[string][]purgatory.Option{
		"tried at once":      nil,
		"first in first out": {purgatory.WithFirstInFirstOut()},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(howMany(150, 50)) {
				awaitRound(t, seed, opts)
				if t.Failed() {
					t.Logf("seed %d", seed)
					return
				}
			}
		})
	}
}

func awaitRound(t *testing.T, seed uint64, opts []purgatory.Option) {
	const kinds = 3
	p := onManualClock[int](t, opts...)
	s := &store{items: make([]int, kinds)}
	var handed, blocked atomic.Int64
	var stop atomic.Bool
	await := func(kind int, timeout time.Duration) {
		var awaits atomic.Bool
		awaits.Store(true)
		took := false
		err := p.Await(t.Context(), timeout, func() bool {
			if !awaits.Load() {
				t.Error("ready runs after its Await has returned")
			}
			took = s.take([]int{kind})
			return took
		}, kind)
		awaits.Store(false)
		if took {
			handed.Add(1)
		}
		assert.Equal(t, took, err == nil, "%v", err)
	}
	var waiters, others sync.WaitGroup
	for g := range uint64(8) {
		waiters.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, g))
			for range 40 {
				await(rnd.IntN(kinds), time.Duration(1+rnd.IntN(3))*time.Millisecond)
			}
			blocked.Add(1)
			await(int(g)%kinds, hour)
		})
	}
	for g := range uint64(3) {
		others.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 100+g))
			for !stop.Load() {
				kind := rnd.IntN(kinds)
				switch rnd.IntN(8) {
				case 0, 1:
					s.add(kind, 1)
					p.CheckAndCompleteInOrder(kind)
				case 2:
					s.add(kind, 1)
					p.SignalInOrder(kind)
				case 3:
					p.CheckAndComplete(kind)
				case 4:
					if blocked.Load() < 8 {
						p.CancelForKey(kind, nil)
					}
				default:
					p.AdvanceClock(time.Millisecond)
				}
				runtime.Gosched()
			}
		})
	}
	if !assert.True(t, inTime(func() bool { return blocked.Load() == 8 })) {
		require.NoError(t, p.Close())
	}
	stop.Store(true)
	others.Wait()
	assert.True(t, inTime(func() bool {
		left := 0
		for kind := range kinds {
			s.Lock()
			beside := s.items[kind] > 0 && p.Waiting(kind) > 0
			s.Unlock()
			if beside {
				left++
			}
		}
		return left == 0
	}), "an item beside a wait for it")
	require.NoError(t, p.Close())
	waiters.Wait()
	left := 0
	for _, n := range s.items {
		left += n
	}
	assert.Equal(t, s.put, int(handed.Load())+left)
	require.NoError(t, p.Shutdown(t.Context()))
}

// Await takes its turn, too.
func TestAnAwaitDoesNotOvertake(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithFirstInFirstOut())
	s := &store{items: make([]int, 1)}
	first := &taker{from: s, kinds: []int{0}}
	submit(t, p, first, hour, 0)
	s.add(0, 1) // its check is still to come
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var returned atomic.Bool
	wg.Go(func() {
		_ = p.Await(ctx, hour, func() bool { return s.take([]int{0}) }, 0)
		returned.Store(true)
	})
	assert.True(t, inTime(func() bool { return returned.Load() || first.Outcome() != operation.Pending }))
	assert.Equal(t, operation.Satisfied, first.Outcome(), "the newcomer's registration tries those before it")
	cancel()
	wg.Wait()
}

// A wait ends and is used again while a check in order has it among those that it will try. The next
// Await that uses it stands at the end of the line, and so the operation before it takes the item.
func TestAWaitThatIsUsedAgainDoesNotOvertake(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			p := onManualClock[int](t, purgatory.WithFirstInFirstOut())
			s := &store{items: make([]int, 1)}
			g := newGate()
			slow := true
			first := &op{try: func() bool {
				took := s.take([]int{0})
				if took && slow {
					slow = false
					g.pass()
				}
				return took
			}}
			submit(t, p, first, hour, 0)
			leaving, leave := context.WithCancel(t.Context())
			waits, again := make(chan struct{}), make(chan error, 1)
			go func() {
				_ = p.Await(leaving, hour, func() bool { return s.take([]int{0}) }, 0)
				close(waits)
				again <- p.Await(t.Context(), hour, func() bool { return s.take([]int{0}) }, 0)
			}()
			synctest.Wait() // its registration tries nobody any more
			second := &taker{from: s, kinds: []int{0}}
			submit(t, p, second, hour, 0)
			s.add(0, 2)
			done := inBackground(func() { p.CheckAndCompleteInOrder(0) })
			<-g.entered
			leave()
			<-waits
			synctest.Wait()
			require.Equal(t, 3, p.NumDelayed(), "it waits once more")
			close(g.leave)
			done()
			require.Equal(t, operation.Satisfied, second.Outcome(), "the newcomer has overtaken it")
			require.NoError(t, p.Close())
			require.ErrorIs(t, <-again, purgatory.ErrClosed)
		})
	}
}
