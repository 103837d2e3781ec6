package observe

import (
	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
)

// Queue calls functions that may block, one after the other on a goroutine that exists while there are some. It is safe
// for concurrent use. The zero value is ready.
type Queue struct {
	mu struct { // lock level 8, taken with no other held
		sched.Mutex
		waiting []func()
		running bool
		dropped int // since Dropped was called
	}
}

const maxWaiting = 256

// Add has f called, unless maxWaiting others wait: then it drops f. It does not block.
func (q *Queue) Add(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.waiting) == maxWaiting {
		q.mu.dropped++
		return
	}
	q.mu.waiting = append(q.mu.waiting, f)
	if !q.mu.running {
		q.mu.running = true
		sched.Go(q.run)
	}
}

// Dropped returns how many functions were dropped since it was last called.
func (q *Queue) Dropped() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, q.mu.dropped = q.mu.dropped, 0
	return n
}

// Idle reports whether no function waits, and none runs.
func (q *Queue) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.mu.running
}

func (q *Queue) run() {
	over := false
	defer func() {
		if !over { // a function has called runtime.Goexit
			sched.Go(q.run)
		}
	}()
	for f := q.next(); f != nil; f = q.next() {
		guard.Call(f, nil)
	}
	over = true
}

func (q *Queue) next() (f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.waiting) == 0 {
		q.mu.waiting, q.mu.running = nil, false
		return nil
	}
	f, q.mu.waiting[0] = q.mu.waiting[0], nil
	q.mu.waiting = q.mu.waiting[1:]
	return f
}
