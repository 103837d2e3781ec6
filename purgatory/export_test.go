package purgatory

import (
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/delayedop/purgatory/internal/workers"
	"github.com/delayedop/purgatory/proof/built"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// What the tests, which are outside of the package, use of its inside.

// RaceDetector reports whether the tests run under the race detector.
var RaceDetector = slices.Contains(built.Flags(), "-race=true")

// Bounds and names that tests compare with.
const (
	AwaitSize    = unsafe.Sizeof(await{})
	BatchSize    = batchSize
	FewKeys      = fewKeys
	LookInterval = lookInterval
	LookEvery    = lookEvery
	MaxInRow     = maxInRow
	Sampling     = sampling
	StuckAfter   = stuckAfter
)

// WithWatcherShards sets the number of shards, a power of two.
func WithWatcherShards(n int) Option { return func(c *config) { c.watcherShards = n } }

// Idle reports whether nothing of p runs or waits to run.
func (p *Purgatory[K]) Idle() bool { return p.idle() }

// AtRest reports whether no callback of p runs and no worker runs or has work.
func (p *Purgatory[K]) AtRest() bool {
	return p.watchers.Totals(0).Inside == 0 && p.crew.idle()
}

// WorkersIdle reports whether no worker of p runs or has work.
func (p *Purgatory[K]) WorkersIdle() bool { return p.crew.idle() }

// Causes returns how many causes of cancellations are kept for those that hold the operations.
func (p *Purgatory[K]) Causes() int {
	p.causes.Lock()
	defer p.causes.Unlock()
	return len(p.causes.all)
}

// Watchers returns the lists of p.
func (p *Purgatory[K]) Watchers() *watchers.Watchers[K] { return p.watchers }

// OwnTimer returns the timer that p has made.
func (p *Purgatory[K]) OwnTimer() *timer.SystemTimer { return p.ownTimer }

// Reaping reports whether the reaper was started.
func (p *Purgatory[K]) Reaping() bool { return p.reaping.off.Load() }

// StartReaper starts the reaper of p.
func (p *Purgatory[K]) StartReaper() { p.startReaper() }

// Reap returns the function that the reaper calls after each AdvanceClock.
func (p *Purgatory[K]) Reap() func() { return p.reap() }

// Sweep is a sweep of the reaper, which may have stalled.
func (p *Purgatory[K]) Sweep(stalled bool) { p.sweep(stalled) }

// CloseOnWorkers closes p and leaves the callbacks to workers.
func (p *Purgatory[K]) CloseOnWorkers() { p.close(true) }

// HeldWorkers are the signal workers of a purgatory, which do nothing until Release is called. A
// test does their work when it wants it done.
type HeldWorkers struct {
	Asked   func() int  // how many workers have been started
	Queued  func() bool // whether there is work
	Step    func() bool // does one piece of work, and reports whether there was any
	Release func()      // lets the workers do what is left
}

// heldJob is a Job whose work is done when it is released.
type heldJob struct {
	workers.Job
	released chan struct{}
}

func (j heldJob) Work() bool {
	<-j.released
	return j.Job.Work()
}

// HoldWorkers holds the workers of p until Release, or the end of the test. Call it before p is used.
func HoldWorkers[K comparable](t testing.TB, p *Purgatory[K]) *HeldWorkers {
	released := make(chan struct{})
	p.crew.pool.Init(p.cfg.workers, heldJob{&p.crew, released})
	h := &HeldWorkers{p.crew.pool.Running, p.crew.Queued, p.crew.Work, sync.OnceFunc(func() { close(released) })}
	t.Cleanup(h.Release)
	return h
}

// Work does what there is to do on the caller's goroutine.
func (h *HeldWorkers) Work() {
	for h.Step() {
	}
}
