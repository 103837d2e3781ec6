// Package workers runs queued work on a bounded number of goroutines that
// exist only while there is work.
package workers

import (
	"errors"
	"math"

	"go.uber.org/atomic"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
)

// Pool keeps at most a fixed number of workers busy. It is safe for concurrent
// use and holds no lock. The queue is not the pool's: the pool only knows how
// to do a piece of work and how to ask whether any is waiting.
//
// No wake-up is lost. (1) Whoever queues work does so before Kick. (2) If Kick
// finds every worker running, one of them has yet to decrement running.
// (3) A worker decrements first and asks for waiting work after that. So either
// Kick sees a free place, or that worker sees the work. (4) A worker that spawn
// refused saw nothing: whoever is told by refused has to Kick again, later.
type Pool struct {
	max      int32
	work     func() bool        // does one bounded piece; false: there was none
	waiting  func() bool        // is anything queued?
	spawn    func(func()) error // starts a worker
	refused  func(error)        // told when spawn fails; the work stays queued
	panicked guard.Handler      // told when spawn panics
	loop     func()             // run, bound once so that starting a worker allocates nothing

	running atomic.Int32
}

// New returns a pool of at most limit workers. A nil spawn means a goroutine each.
// Work that spawn refuses stays queued until somebody calls Kick again; a spawn that
// panics, which panicked is told, or calls runtime.Goexit has refused.
func New(limit int, work, waiting func() bool, spawn func(func()) error, refused func(error), panicked guard.Handler) *Pool {
	p := &Pool{
		max: int32(min(limit, math.MaxInt32)), work: work, waiting: waiting,
		spawn: spawn, refused: refused, panicked: panicked,
	}
	p.loop = p.run
	return p
}

// Kick sees to it that queued work is worked on. It never blocks.
func (p *Pool) Kick() {
	for {
		sched.Yield()
		n := p.running.Load()
		if n >= p.max {
			return
		}
		if p.running.CompareAndSwap(n, n+1) {
			break
		}
	}
	if p.spawn == nil {
		go p.loop()
		return
	}
	p.submit()
}

// submit asks spawn, which is user code, for a worker. Deferred, so that a spawn that
// does not return (runtime.Goexit) takes no worker's place with it.
func (p *Pool) submit() {
	err := errSpawn
	defer func() {
		if err != nil {
			sched.Yield()
			p.running.Dec()
			p.refused(err)
		}
	}()
	guard.Call(func() { err = p.spawn(p.loop) }, p.panicked)
}

var errSpawn = errors.New("purgatory: the executor did not return")

// Running returns the number of workers that run now.
func (p *Pool) Running() int { return int(p.running.Load()) }

func (p *Pool) run() {
	// Deferred, so that a worker whose work ended its goroutine
	// (runtime.Goexit) is replaced.
	defer func() {
		sched.Yield()
		p.running.Dec()
		if p.waiting() {
			p.Kick()
		}
	}()
	for p.work() {
	}
}
