package workers

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// queue is a queue of functions, which are a pool's work.
type queue struct {
	mu     sync.Mutex
	items  []func()
	inVain int    // how often work was called while nothing was queued
	look   func() // KickIfQueued of the pool, for work that blocks
}

// job is the Work of a Job for which none waits.
type job func() bool

func (j job) Work() bool { return j() }
func (job) Queued() bool { return false }

// tooOften is how often a pool may ask in vain: each kick of a test starts a worker or two.
const tooOften = 100_000

func (q *queue) push(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, f)
}

func (q *queue) Work() bool {
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

func (q *queue) Queued() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) > 0
}

func newPool(limit int, job Job) *Pool {
	p := new(Pool)
	p.Init(limit, job)
	return p
}

// Without the pause a worker has done a million pieces when the scheduler stops it.
func TestAWorkerLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var pieces, seen atomic.Int64
	work := func() bool { return pieces.Add(1) < 1e8 && seen.Load() == 0 }
	p := newPool(1, job(work))
	var other sync.WaitGroup
	other.Go(func() { seen.Store(pieces.Load() + 1) })
	p.Kick() // the worker runs before the other goroutine
	other.Wait()
	assert.Less(t, seen.Load(), int64(100*yieldAfter))
}

// A pool widens up to its bound, one of more stays as it is, and a single worker stays alone.
func TestAPoolWidensUpToItsBound(t *testing.T) {
	for limit, most := range map[int]int64{1: 1, 2: widest, 3: widest, widest - 1: widest, widest: widest, widest + 1: widest + 1} {
		var p Pool
		p.Init(limit, job(func() bool { return false }))
		for range 40 {
			p.Widen()
		}
		assert.Equal(t, most, p.max.Load(), "from %d", limit)
		for p.Running() > 0 {
			runtime.Gosched()
		}
	}
}

// The kicks come before the first worker runs. It asks for the second one before its work blocks.
func TestPoolRunsAtMostItsLimit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, limit := range []int{1, 2, 3} {
		for _, pieces := range []int{limit - 1, limit, limit + 1, 30} {
			synctest.Test(t, func(t *testing.T) {
				var q queue
				p := newPool(limit, &q)
				q.look = p.KickIfQueued
				var mu sync.Mutex
				running, most, begun := 0, 0, 0
				add := func(n int) {
					mu.Lock()
					defer mu.Unlock()
					running += n
					most = max(most, running)
					begun += max(n, 0)
				}
				for range pieces {
					q.push(func() {
						add(1)
						time.Sleep(time.Second)
						add(-1)
					})
					p.Kick()
				}
				synctest.Wait()
				assert.Equal(t, min(limit, pieces), p.Running())
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, []int{pieces, min(limit, pieces), 0}, []int{begun, most, p.Running()}, "no goroutine waits for work")
			})
		}
	}
}

// As many workers as may be counted are the most that a pool has.
func TestAPoolsLimitHasABound(t *testing.T) {
	for _, limit := range []int64{1, starting - 2, starting - 1, starting, starting + 1, math.MaxInt64} {
		var p Pool
		p.Init(int(min(limit, math.MaxInt)), nil)
		assert.Equal(t, min(limit, starting-1, math.MaxInt), p.max.Load())
	}
}

// Kicks may come before the goroutines run that earlier ones have started: those find the work.
func TestNoMoreGoroutinesAreStartedThanProcessorsRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	p := newPool(4, nil)
	assert.True(t, p.admit())
	assert.True(t, p.admit())
	assert.False(t, p.admit(), "two are being started")
	assert.Equal(t, 2, p.Running())
	p.job = job(func() bool {
		assert.True(t, p.admit(), "one has started")
		assert.False(t, p.admit())
		assert.Equal(t, 3, p.Running())
		return false
	})
	p.run()
	assert.Equal(t, 2, p.Running())
}

func TestKickWithoutWorkEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		p := newPool(2, &q)
		p.Kick()
		synctest.Wait()
		assert.Zero(t, p.Running())
	})
}

func TestWorkerThatIsEndedByGoexitIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		p := newPool(1, &q)
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
		p := newPool(2, &q)
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
				if q.Queued() {
					t.Fatal("work waits and no worker runs")
				}
			}
		}
		synctest.Wait()
		assert.EqualValues(t, 5000, done.Load())
	})
}

// lingeringPool returns a pool one of whose workers may linger. A bubble that is left with a goroutine that waits is an error.
func lingeringPool(t *testing.T, limit int) (*Pool, *queue) {
	t.Helper()
	q := new(queue)
	p := newPool(limit, q)
	p.MayLinger()
	return p, q
}

func TestAWorkerThatLingersDoesWhatComesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := lingeringPool(t, 2)
		var workers []string
		for range 5 {
			q.push(func() { workers = append(workers, goroutine()) })
			p.Kick()
			synctest.Wait()
			assert.Zero(t, p.Running(), "it counts as none")
			time.Sleep(lingering / 10)
		}
		assert.Equal(t, slices.Repeat(workers[:1], 5), workers)
		time.Sleep(lingering)
	})
}

func TestAWorkerDoesNotLingerForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := lingeringPool(t, 2)
		for range 3 {
			q.push(func() {})
			p.Kick()
			synctest.Wait()
			assert.Equal(t, one, p.lingers.Load())
			time.Sleep(lingering)
			synctest.Wait()
			assert.Equal(t, nobody, p.lingers.Load())
		}
	})
}

func TestOneWorkerLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := lingeringPool(t, 3)
		q.look = p.KickIfQueued
		for range 3 {
			q.push(func() { time.Sleep(time.Second) })
			p.Kick()
		}
		synctest.Wait()
		assert.Equal(t, 3, p.Running())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, one, p.lingers.Load())
		time.Sleep(lingering) // the bubble must not end with another one
	})
}

func TestNobodyLingersUnlessHeMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		p := newPool(1, &q)
		q.push(func() {})
		p.Kick()
		synctest.Wait()
		assert.Equal(t, nobody, p.lingers.Load())

		p.MayLinger()
		q.push(func() {})
		p.Kick()
		synctest.Wait()
		assert.True(t, p.Idle(), "one that lingers may be woken at any time")
		waitsFor := p.wake
		p.wake = sched.NewToken() // the worker goes on when the test has looked
		p.Dismiss()
		assert.Len(t, p.wake, 1)
		assert.False(t, p.Idle(), "it has yet to end")
		<-p.wake
		waitsFor.Put()
		synctest.Wait()
		assert.True(t, p.Idle())
		q.push(func() {})
		p.Kick()
		synctest.Wait()
		assert.Equal(t, nobody, p.lingers.Load(), "from now on")
		time.Sleep(lingering)
	})
}

// Work is found although the workers that others rely on do none of it: one that was dismissed and has yet to end, one that
// was woken for nothing, and those that block. No second kick comes.
func TestWorkThatIsLeftIsFoundBesideWorkersThatDoNone(t *testing.T) {
	for name, leave := range map[string]func(p *Pool, q *queue, work func()){
		"one is dismissed": func(p *Pool, q *queue, work func()) {
			p.Kick()
			synctest.Wait()
			p.Dismiss() // and has yet to end
			q.push(work)
			p.Kick()
		},
		"one is being woken": func(p *Pool, q *queue, work func()) {
			p.Kick()
			synctest.Wait()
			p.Kick()
			q.push(work)
			p.Kick()
		},
		"one is being started, and the others block": func(p *Pool, q *queue, work func()) {
			p.Kick()
			p.Kick()
			q.push(work)
			p.Kick()
		},
		"one exits, and the others block": func(p *Pool, q *queue, work func()) {
			q.push(runtime.Goexit)
			q.push(work)
			p.Kick()
		},
	} {
		for _, blocked := range []int{0, 1, 2} {
			t.Run(fmt.Sprint(name, ", ", blocked, " block"), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // what was started runs when the test waits
				synctest.Test(t, func(t *testing.T) {
					p, q := lingeringPool(t, 3)
					q.look = p.KickIfQueued
					back, done := make(chan struct{}), false
					for range blocked {
						q.push(func() { <-back })
						p.Kick()
						synctest.Wait()
					}
					q.push(func() {})
					leave(p, q, func() { done = true })
					synctest.Wait()
					assert.True(t, done)
					assert.Equal(t, blocked, p.Running())
					close(back)
					time.Sleep(lingering)
				})
			})
		}
	}
}

// goroutine names the goroutine that calls it.
func goroutine() string {
	text := make([]byte, 64)
	text, _, _ = bytes.Cut(text[:runtime.Stack(text, false)], []byte("["))
	return string(text)
}
