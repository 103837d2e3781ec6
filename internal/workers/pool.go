// Package workers runs queued work on a bounded number of goroutines that exist only while
// there is work, and one of them, if that is wanted, a moment longer.
package workers

import (
	"runtime"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// yieldAfter is how many pieces of work a worker does before it lets other goroutines run. The
// scheduler interrupts a goroutine only after 10 ms. A goroutine that becomes ready on the
// worker's processor, because the worker has released a lock, would wait for that long.
const yieldAfter = 64

// Pool runs up to a fixed number of workers, once Init has been called. It is safe for concurrent use and holds no lock.
// The queue is not part of the pool: it is a [Job].
//
// No wake-up is lost:
//
//  1. A goroutine that queues work does so before it calls Kick.
//  2. If Kick finds the maximum of workers running, each of them has yet to decrement
//     running.
//  3. A worker first decrements running and then asks for queued work. So either Kick
//     finds room for a worker, or that worker finds the work.
//  4. If Kick finds enough goroutines being started as workers, each has yet to say that it has
//     started. It does so before it asks for work, so it finds the work, or somebody else has.
//
// No work waits for a worker that is blocked while there is room for another: whoever takes work calls KickIfQueued
// before it runs code that may block, and 4 holds for that call of Kick, too. So no more goroutines
// are being started than there are processors to run them. If each piece of short work had another
// one started, most would find nothing: T2 of bench takes 10 % less processor time. See
// docs/internals/decisions.md#as-many-new-workers-as-processors.
//
// A worker that lingers counts as none. Kick wakes it, and it asks for room as Kick does for a
// goroutine: if it gets none, 2 or 4 holds.
type Pool struct {
	max   sched.Int64
	procs int64 // processors when the pool was made
	job   Job
	loop  func() // p.run, evaluated once so that starting a worker allocates nothing

	running sched.Int64 // workers that run, and starting+1 for each that is being started

	may     sched.Bool   // a worker may linger
	bubble  bool         // the pool was made in a synctest bubble
	lingers sched.Uint32 // who lingers; a goroutine that changes one to another value puts a token into wake
	timed   sched.Bool   // a timer is set, see linger
	wake    sched.Token
}

// Who lingers.
const (
	nobody uint32 = iota
	one
	woken     // nobody, but a worker has yet to take the token: until then no other lingers
	dismissed // as woken, and that worker must not work
)

// lingering is how long a worker waits for more work at most.
const lingering = 10 * time.Millisecond

// starting is added to running, beside the worker's 1, while its goroutine is being started.
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

// Kick wakes the worker that lingers, or starts one unless the maximum of workers is running, or enough
// goroutines are being started. Call it after work was queued. It does not block and calls no user code.
func (p *Pool) Kick() {
	if !p.rouse() && p.admit() {
		sched.Go(p.loop)
	}
}

// rouse wakes the worker that lingers, if there is one, and reports whether there was.
func (p *Pool) rouse() (roused bool) {
	if roused = p.lingers.Load() == one && p.lingers.CompareAndSwap(one, woken); roused {
		p.wake.Put()
	}
	return roused
}

// MayLinger allows that a worker that finds no more work waits for some, for 10 ms at most. Call it before
// the first Kick. See docs/internals/decisions.md#a-worker-lingers.
func (p *Pool) MayLinger() {
	p.bubble = sched.InBubble()
	p.may.Store(true)
}

// Dismiss ends the worker that lingers, which does not work any more. From now on none lingers.
func (p *Pool) Dismiss() {
	p.may.Store(false)
	p.dismiss()
}

func (p *Pool) dismiss() {
	if p.lingers.CompareAndSwap(one, dismissed) {
		p.wake.Put()
	}
}

// admit counts a worker that is to be started, unless none may be.
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

// widest is up to how many workers Widen adds: with their stacks they weigh a few megabytes.
const widest = 1 << 10

// Widen lets up to twice as many workers run: their work blocks them, and more is queued. One worker stays alone,
// because it does its work in order.
func (p *Pool) Widen() {
	if n := p.max.Load(); n > 1 {
		p.max.Store(max(n, min(2*n, widest)))
		p.Kick()
	}
}

// KickIfQueued starts a worker if work is queued. A worker calls it before it runs code that may block it.
func (p *Pool) KickIfQueued() {
	if p.job.Queued() {
		p.Kick()
	}
}

// Idle reports whether no worker runs, and none that was dismissed has yet to end.
func (p *Pool) Idle() bool { return p.Running() == 0 && p.lingers.Load() != dismissed }

// Running returns the number of workers that run or are being started.
func (p *Pool) Running() int {
	return int(p.running.Load() % starting)
}

// run is a worker: it works, and lingers if it has found work.
func (p *Pool) run() {
	for p.shift() && p.linger() {
	}
}

// linger waits until the worker is woken, and reports whether it is to work again. It returns false at once if
// the worker must not linger, as in a synctest bubble in which the pool was not made, and which could not end, or another one does. A timer bounds the wait, and dismisses the worker. It is set for
// whoever lingers, not for each wait: a worker waits for less than 10 ms if the timer was set for an earlier wait.
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
			p.timed.Store(false) // before dismiss: a worker that begins to wait later sets a timer
			p.dismiss()
		})
	}
	sched.Receive(p.wake)
	if p.lingers.CompareAndSwap(dismissed, nobody) {
		return false
	}
	again = p.admit()
	p.lingers.Store(nobody)
	return again
}

// shift works until there is no more work, and reports whether there was any.
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
