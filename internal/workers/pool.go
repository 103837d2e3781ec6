// Package workers runs queued work on a bounded number of goroutines, which exist only while there is some.
package workers

import (
	"runtime"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// yieldAfter is after how many pieces of work a worker lets other goroutines run: they would wait for up to 10 ms.
const yieldAfter = 64

// Pool runs up to max workers, once Init has been called. It is safe for concurrent use and holds no lock. The
// queue is its [Job].
//
// No wake-up is lost:
//
//  1. A goroutine that queues work does so before it calls Kick.
//  2. If Kick finds the maximum of workers running, each of them has yet to decrement running.
//  3. A worker first decrements running and then asks for queued work. So either Kick finds room, or that
//     worker finds the work.
//  4. If Kick finds enough goroutines being started (one for each processor), each asks for work later.
//
// Whoever takes work calls KickIfQueued before it runs code that may block: so no work waits for it while there
// is room. A worker that lingers counts as none. Kick wakes it, and it asks for room: if it gets none, 2 or 4
// holds.
type Pool struct {
	max   sched.Int64
	procs int64 // processors when the pool was made
	job   Job
	loop  func() // p.run, evaluated once

	running sched.Int64 // workers that run, and starting+1 for each that is being started

	may     sched.Bool   // a worker may linger
	bubble  bool         // the pool was made in a synctest bubble
	lingers sched.Uint32 // whoever changes one to woken puts a token into wake
	timed   sched.Bool   // a timer is set, see linger
	wake    sched.Token
}

// Who lingers.
const (
	nobody uint32 = iota
	one
	woken // nobody, but a worker has yet to take the token: until then no other lingers
)

const lingering = 10 * time.Millisecond

// starting is added to running, beside 1, while a worker is being started: see
// docs/internals/decisions.md#as-many-new-workers-as-processors.
const starting = 1 << 32

// Job is what a pool does.
type Job interface {
	Work() bool   // does one bounded piece of work; false: there is none
	Queued() bool // reports whether work is queued
}

// Init makes p a pool of at most limit workers.
func (p *Pool) Init(limit int, job Job) {
	p.max.Store(min(int64(limit), starting-1))
	p.procs, p.job = int64(runtime.GOMAXPROCS(0)), job
	p.loop = p.run
}

// Kick wakes the worker that lingers, or starts one if there is room.
func (p *Pool) Kick() {
	if !p.rouse() && p.admit() {
		sched.Go(p.loop)
	}
}

// rouse wakes the worker that lingers, if there is one. It ends if it finds no work.
func (p *Pool) rouse() (ok bool) {
	if ok = p.lingers.Load() == one && p.lingers.CompareAndSwap(one, woken); ok {
		p.wake.Put()
	}
	return ok
}

// MayLinger lets a worker that finds no more work wait for some: see docs/internals/decisions.md#a-worker-lingers.
// Call it before the first Kick.
func (p *Pool) MayLinger() {
	p.bubble = sched.InBubble()
	p.may.Store(true)
}

// Dismiss ends the worker that lingers. From now on none lingers.
func (p *Pool) Dismiss() {
	p.may.Store(false)
	p.rouse()
}

func (p *Pool) admit() bool {
	for {
		n := p.running.Load()
		if n%starting >= p.max.Load() || n/starting >= p.procs {
			return false
		}
		if p.running.CompareAndSwap(n, n+starting+1) {
			return true
		}
	}
}

const widest = 1 << 10

// Widen lets up to twice as many workers run. A single one stays alone: it works in order.
func (p *Pool) Widen() {
	if n := p.max.Load(); n > 1 {
		p.max.Store(max(n, min(2*n, widest)))
		p.Kick()
	}
}

// KickIfQueued starts a worker if work is queued.
func (p *Pool) KickIfQueued() {
	if p.job.Queued() {
		p.Kick()
	}
}

// Idle reports whether no worker runs, and none was woken that has yet to go on.
func (p *Pool) Idle() bool { return p.Running() == 0 && p.lingers.Load() != woken }

// Running returns how many workers run or are being started.
func (p *Pool) Running() int { return int(p.running.Load() % starting) }

func (p *Pool) run() {
	for p.shift() && p.linger() {
	}
}

// linger waits until the worker is woken, and reports whether it is to work again: not where it must not linger, as in a
// bubble in which the pool was not made, or beside another one.
func (p *Pool) linger() (again bool) {
	if !p.may.Load() || sched.InBubble() != p.bubble || !p.lingers.CompareAndSwap(nobody, woken) {
		return false
	}
	if p.wake == nil {
		p.wake = sched.NewToken()
	}
	p.lingers.Store(one)
	if !p.may.Load() && p.lingers.CompareAndSwap(one, nobody) { // Dismiss came before it lingered
		return false
	}
	if !p.timed.Swap(true) {
		sched.AfterFunc(lingering, func() {
			p.timed.Store(false) // before rouse: a worker that begins to wait later sets a timer
			p.rouse()
		})
	}
	sched.Receive(p.wake)
	again = p.admit()
	p.lingers.Store(nobody)
	return again
}

func (p *Pool) shift() (worked bool) {
	// Deferred, so that another worker continues if the work calls runtime.Goexit.
	defer func() {
		p.running.Add(-1)
		p.KickIfQueued()
	}()
	p.running.Add(-starting) // it has started
	for n := 1; p.job.Work(); n++ {
		if worked = true; n%yieldAfter == 0 {
			runtime.Gosched()
		}
	}
	return worked
}
