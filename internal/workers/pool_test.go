package workers

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue is a queue of functions, which are a pool's work.
type queue struct {
	mu     sync.Mutex
	items  []func()
	inVain int    // how often work was called while nothing was queued
	look   func() // Look of the pool, for work that blocks
}

// tooOften is how often a pool may ask in vain: each kick of a test starts a worker or two.
const tooOften = 100_000

func (q *queue) push(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, f)
}

func (q *queue) work() bool {
	q.mu.Lock()
	if len(q.items) == 0 {
		q.inVain++
		enough := q.inVain == tooOften
		q.mu.Unlock()
		if enough {
			panic("workers ask for work although there is none, over and over")
		}
		return false
	}
	f := q.items[0]
	q.items = q.items[1:]
	q.mu.Unlock()
	if q.look != nil {
		q.look()
	}
	f()
	return true
}

func (q *queue) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) > 0
}

func noRefusal(t *testing.T) func(error) {
	return func(err error) { t.Errorf("refused: %v", err) }
}

func noPanic(t *testing.T) guard.Handler {
	return func(v any, _ []byte) { t.Errorf("panic: %v", v) }
}

// Without the pause a worker has done a million pieces when the scheduler stops it.
func TestAWorkerLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var pieces, seen atomic.Int64
	work := func() bool { return pieces.Add(1) < 1e8 && seen.Load() == 0 }
	p := New(1, work, func() bool { return false }, nil, noRefusal(t), noPanic(t))
	var other sync.WaitGroup
	other.Go(func() { seen.Store(pieces.Load() + 1) })
	p.Kick() // the worker runs before the other goroutine
	other.Wait()
	assert.Less(t, seen.Load(), int64(100*turn))
}

// The kicks come before the first worker runs. It asks for the second one before its work blocks.
func TestPoolRunsAtMostItsLimit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		var q queue
		p := New(3, q.work, q.waiting, nil, noRefusal(t), noPanic(t))
		q.look = p.Look
		var running, most, done atomic.Int32
		for range 30 {
			q.push(func() {
				n := running.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				time.Sleep(time.Second)
				running.Add(-1)
				done.Add(1)
			})
			p.Kick()
		}
		synctest.Wait()
		assert.Equal(t, 3, p.Running())
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.EqualValues(t, 30, done.Load())
		assert.EqualValues(t, 3, most.Load())
		assert.Zero(t, p.Running(), "no goroutine waits for work")
	})
}

// Kicks may come before the goroutines run that earlier ones have started: those find the work.
func TestNoMoreGoroutinesAreStartedThanProcessorsRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	p := New(4, nil, nil, nil, noRefusal(t), noPanic(t))
	assert.True(t, p.admit())
	assert.True(t, p.admit())
	assert.False(t, p.admit(), "two are being started")
	assert.Equal(t, 2, p.Running())
	p.work = func() bool {
		assert.True(t, p.admit(), "one has started")
		assert.False(t, p.admit())
		assert.Equal(t, 3, p.Running())
		return false
	}
	p.waiting = func() bool { return false }
	p.run()
	assert.Equal(t, 2, p.Running())
}

// An executor may keep a worker waiting: others are started meanwhile.
func TestAnExecutorIsAskedForEveryWorker(t *testing.T) {
	var q queue
	var runs []func()
	p := New(3, q.work, q.waiting, func(run func()) error { runs = append(runs, run); return nil }, noRefusal(t), noPanic(t))
	for range 5 {
		q.push(func() {})
		p.Kick()
	}
	assert.Len(t, runs, 3)
	assert.Equal(t, 3, p.Running())
	for _, run := range runs {
		run()
	}
	assert.False(t, q.waiting())
	assert.Zero(t, p.Running())
}

func TestKickWithoutWorkEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		p := New(2, q.work, q.waiting, nil, noRefusal(t), noPanic(t))
		p.Kick()
		synctest.Wait()
		assert.Zero(t, p.Running())
	})
}

func TestWorkerThatIsEndedByGoexitIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		p := New(1, q.work, q.waiting, nil, noRefusal(t), noPanic(t))
		var done atomic.Int32
		for i := range 10 {
			q.push(func() {
				done.Add(1)
				if i%2 == 0 {
					runtime.Goexit()
				}
			})
		}
		p.Kick()
		synctest.Wait()
		assert.EqualValues(t, 10, done.Load())
		assert.Zero(t, p.Running())
	})
}

// Work that is queued while the last worker ends is done by that worker or by a new one.
func TestNoKickIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		p := New(2, q.work, q.waiting, nil, noRefusal(t), noPanic(t))
		var done atomic.Int32
		for range 5000 {
			before := done.Load()
			q.push(func() { done.Add(1) })
			p.Kick()
			if before%3 == 0 {
				runtime.Gosched()
			}
			if before%7 == 0 {
				synctest.Wait()
				if q.waiting() {
					t.Fatal("work waits and no worker runs")
				}
			}
		}
		synctest.Wait()
		assert.EqualValues(t, 5000, done.Load())
	})
}

func TestRefusedWorkStaysQueuedUntilTheNextKick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		full := errors.New("full")
		var told []error
		accept := false
		spawn := func(run func()) error {
			if !accept {
				return full
			}
			go run()
			return nil
		}
		p := New(1, q.work, q.waiting, spawn, func(err error) { told = append(told, err) }, noPanic(t))
		done := false
		q.push(func() { done = true })
		p.Kick()
		p.Kick()
		assert.Equal(t, []error{full, full}, told)
		assert.Zero(t, p.Running(), "a refusal takes no place")
		accept = true
		p.Kick()
		synctest.Wait()
		assert.True(t, done)
	})
}

func TestSpawnThatDoesNotReturnTakesNoPlace(t *testing.T) {
	for name, fail := range map[string]func(){
		"panic":  func() { panic("spawn") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			var q queue
			refusals := 0
			var panics []any
			p := New(1, q.work, q.waiting, func(func()) error { fail(); return nil }, func(error) { refusals++ },
				func(v any, _ []byte) { panics = append(panics, v) })
			var wg sync.WaitGroup
			wg.Go(p.Kick) // Kick recovers a panic of spawn, because its caller may hold a lock
			wg.Wait()
			assert.Zero(t, p.Running())
			assert.Equal(t, 1, refusals)
			if name == "panic" {
				assert.Equal(t, []any{"spawn"}, panics)
			}
		})
	}
}

// Who hears of a refusal finds the place of the refused worker free.
func TestARefusalMayKickAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		var p *Pool
		kicks := 0
		spawn := func(run func()) error {
			if kicks++; kicks == 1 {
				return errors.New("full")
			}
			go run()
			return nil
		}
		p = New(1, q.work, q.waiting, spawn, func(error) { p.Kick() }, noPanic(t))
		done := false
		q.push(func() { done = true })
		p.Kick()
		synctest.Wait() // no time passes: the pool's own retry has not come
		assert.True(t, done)
		time.Sleep(time.Second)
	})
}

// After a refusal the pool offers the work again, RetryAfter later, however many kicks were
// refused, and again after the next refusal.
func TestRefusedWorkIsOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		var calls []time.Duration
		began := time.Now()
		spawn := func(run func()) error {
			calls = append(calls, time.Since(began))
			if len(calls) < 5 {
				return errors.New("full")
			}
			go run()
			return nil
		}
		p := New(1, q.work, q.waiting, spawn, func(error) {}, noPanic(t))
		done := false
		q.push(func() { done = true })
		p.Kick()
		p.Kick()
		time.Sleep(10 * RetryAfter)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, 0, RetryAfter, 2 * RetryAfter, 3 * RetryAfter}, calls)
		assert.True(t, done)
		calls = calls[:0]
		p.Kick() // refused; nothing is queued when the time comes, and so nothing is offered
		time.Sleep(10 * RetryAfter)
		assert.Len(t, calls, 1)
	})
}
