// Package workers runs queued work on a bounded number of goroutines that exist only while
// there is work.
package workers

import (
	"errors"
	"runtime"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
)

// turn is how many pieces of work a worker does before it lets other goroutines run. The
// scheduler interrupts a goroutine only after 10 ms. A goroutine that becomes ready on the
// worker's processor, because the worker has released a lock, would wait for that long.
const turn = 64

// Pool runs up to a fixed number of workers. It is safe for concurrent use and holds no lock.
// The queue is not part of the pool: the pool calls functions to do a piece of work and to
// ask whether work is waiting.
//
// No wake-up is lost:
//
//  1. A goroutine that queues work does so before it calls Kick.
//  2. If Kick finds the maximum of workers running, each of them has yet to decrement
//     running.
//  3. A worker first decrements running and then asks for waiting work. So either Kick
//     finds a place for a worker, or that worker finds the work.
//  4. If Kick finds enough goroutines being started as workers, each has yet to say that it has
//     started. It does so before it looks for work, so it finds the work, or somebody else has.
//  5. If spawn refuses, no worker looks at the queue. RetryAfter later, the pool looks, and
//     offers the work again.
//
// No work waits for a worker that is blocked while a place is free: whoever takes work calls Look
// before it runs code that may block, and 4 holds for that call of Kick, too. So no more goroutines
// are being started than there are processors to run them. If each piece of short work had another
// one started, most would find nothing: T2 of bench takes 10 % less processor time. Workers of an
// executor, which may keep one waiting, are started without this rule.
type Pool struct {
	max      int64
	procs    int64              // processors when the pool was made
	worker   int64              // what running counts for a worker that is being started: 1, and starting for a goroutine
	work     func() bool        // does one bounded piece of work; false: there is no more
	waiting  func() bool        // reports whether work is queued
	spawn    func(func()) error // starts a worker
	refused  func(error)        // is told when spawn has refused; the work stays queued
	panicked guard.Handler      // called when spawn panics
	loop     func()             // p.run, evaluated once so that starting a worker allocates nothing

	running  sched.Int64 // workers that run or are being started, and starting for each goroutine of the latter
	retrying sched.Bool  // spawn has refused, and a timer of the runtime will look at the queue
}

// RetryAfter is how long a pool waits before it offers refused work again.
const RetryAfter = 10 * time.Millisecond

// starting is added to running while a goroutine is being started.
const starting = 1 << 32

// New returns a pool of at most limit workers. spawn starts a worker; nil means a goroutine
// for each. spawn refuses if it returns an error, panics or calls runtime.Goexit; then
// refused is called, and the pool offers the work again.
func New(limit int, work, waiting func() bool, spawn func(func()) error, refused func(error), panicked guard.Handler) *Pool {
	p := &Pool{
		max: min(int64(limit), starting-1), procs: int64(runtime.GOMAXPROCS(0)), worker: 1, work: work, waiting: waiting,
		spawn: spawn, refused: refused, panicked: panicked,
	}
	if spawn == nil {
		p.worker += starting
	}
	p.loop = p.run
	return p
}

// Kick starts a worker unless the maximum of workers is running, or enough goroutines are being
// started. Call it after work was queued. It does not block, unless spawn does.
//
// spawn and refused call user code: the executor and the logger. Kick runs each on another
// goroutine, so that a runtime.Goexit in it does not end the caller's goroutine, which may
// have callbacks to run.
func (p *Pool) Kick() {
	if !p.admit() {
		return
	}
	if p.spawn == nil {
		sched.Go(p.loop)
		return
	}
	err := errSpawn
	guard.Apart(func() { err = p.spawn(p.loop) }, p.panicked)
	if err != nil {
		p.running.Add(-1)
		if !p.retrying.Swap(true) {
			sched.AfterFunc(RetryAfter, func() {
				p.retrying.Store(false)
				p.Look()
			})
		}
		guard.Apart(func() { p.refused(err) }, p.panicked)
	}
}

// admit counts a worker that is to be started, unless none may be.
func (p *Pool) admit() bool {
	for {
		n := p.running.Load()
		if n%starting >= p.max || n/starting >= p.procs {
			return false
		}
		if p.running.CompareAndSwap(n, n+p.worker) {
			return true
		}
	}
}

// Look starts a worker if work is queued. A worker calls it before it runs code that may block it.
func (p *Pool) Look() {
	if p.waiting() {
		p.Kick()
	}
}

var errSpawn = errors.New("purgatory: the executor did not return")

// Running returns the number of workers that run or are being started.
func (p *Pool) Running() int {
	return int(p.running.Load() % starting)
}

// run is a worker: it works until no work is left.
func (p *Pool) run() {
	// Deferred, so that another worker continues if the work calls runtime.Goexit.
	defer func() {
		p.running.Add(-1)
		p.Look()
	}()
	p.running.Add(1 - p.worker) // a goroutine has started
	for n := 1; p.work(); n++ {
		if n%turn == 0 {
			runtime.Gosched()
		}
	}
}
