package purgatory_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		"CompleteForKey":          func() { p.CompleteForKey(bad) },
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
	assert.Zero(t, p.CompleteForKey("items"))
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
