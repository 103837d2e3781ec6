// Package workers runs queued work on a bounded number of goroutines that exist only while
// there is work.
package workers

import (
	"runtime"

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
//
// No work waits for a worker that is blocked while a place is free: whoever takes work calls Look
// before it runs code that may block, and 4 holds for that call of Kick, too. So no more goroutines
// are being started than there are processors to run them. If each piece of short work had another
// one started, most would find nothing: T2 of bench takes 10 % less processor time. See
// docs/decisions.md#as-many-new-workers-as-processors.
type Pool struct {
	max     int64
	procs   int64       // processors when the pool was made
	work    func() bool // does one bounded piece of work; false: there is no more
	waiting func() bool // reports whether work is queued
	loop    func()      // p.run, evaluated once so that starting a worker allocates nothing

	running sched.Int64 // workers that run, and starting+1 for each that is being started
}

// starting is added to running, beside the worker's 1, while its goroutine is being started.
const starting = 1 << 32

// New returns a pool of at most limit workers. work does one bounded piece of work, and reports
// false if there is none; waiting reports whether work is queued.
func New(limit int, work, waiting func() bool) *Pool {
	p := &Pool{max: min(int64(limit), starting-1), procs: int64(runtime.GOMAXPROCS(0)), work: work, waiting: waiting}
	p.loop = p.run
	return p
}

// Kick starts a worker unless the maximum of workers is running, or enough goroutines are being
// started. Call it after work was queued. It does not block and calls no user code.
func (p *Pool) Kick() {
	if p.admit() {
		sched.Go(p.loop)
	}
}

// admit counts a worker that is to be started, unless none may be.
func (p *Pool) admit() bool {
	for {
		n := p.running.Load()
		if n%starting >= p.max || n/starting >= p.procs {
			return false
		}
		if p.running.CompareAndSwap(n, n+starting+1) {
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
	p.running.Add(-starting) // it has started
	for n := 1; p.work(); n++ {
		if n%turn == 0 {
			runtime.Gosched()
		}
	}
}
