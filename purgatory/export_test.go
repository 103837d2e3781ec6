package purgatory

import (
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/workers"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/proof/built"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// What the tests, which are outside of the package, use of its inside.

// RaceDetector reports whether the tests run under the race detector.
var RaceDetector = slices.Contains(built.Flags(), "-race=true")

// Bounds and names that tests compare with.
const (
	BatchSize       = batchSize
	FewKeys         = fewKeys
	GateInterval    = gateInterval
	MaxInRow        = maxInRow
	RegionCallbacks = regionCallbacks
	RegionCheck     = regionCheck
	Sampling        = sampling
	WalkSize        = unsafe.Sizeof(walk[string]{})
)

// Idle reports whether nothing of p runs or waits to run.
func (p *DelayedOperationPurgatory[K]) Idle() bool { return p.idle() }

// AtRest reports whether no callback of p runs and no worker runs or has work.
func (p *DelayedOperationPurgatory[K]) AtRest() bool {
	return p.watchers.Inside() == 0 && p.crew.idle()
}

// WorkersIdle reports whether no worker of p runs or has work.
func (p *DelayedOperationPurgatory[K]) WorkersIdle() bool { return p.crew.idle() }

// Wishes returns how many causes are kept for those that hold their operations.
func (p *DelayedOperationPurgatory[K]) Wishes() int { return p.wishes.Len() }

// Watchers returns the lists of p.
func (p *DelayedOperationPurgatory[K]) Watchers() *watchers.Watchers[K] { return p.watchers }

// OwnTimer returns the timer that p has made.
func (p *DelayedOperationPurgatory[K]) OwnTimer() *timer.SystemTimer { return p.ownTimer }

// SetTimer has p use t. Call it before p is used.
func (p *DelayedOperationPurgatory[K]) SetTimer(t timer.Timer) { p.timer = t }

// Reaping reports whether the reaper was started.
func (p *DelayedOperationPurgatory[K]) Reaping() bool { return p.reaping.off.Load() }

// StartReaper starts the reaper of p.
func (p *DelayedOperationPurgatory[K]) StartReaper() { p.startReaper() }

// Reap returns the function that the reaper calls after each AdvanceClock.
func (p *DelayedOperationPurgatory[K]) Reap() func() { return p.reap() }

// Sweep is a sweep of the reaper, which has stalled for so long.
func (p *DelayedOperationPurgatory[K]) Sweep(stalled time.Duration) { p.sweep(stalled) }

// CloseOnWorkers closes p and leaves the callbacks to workers.
func (p *DelayedOperationPurgatory[K]) CloseOnWorkers() { p.close(true) }

// SatisfyNow ends op as a reader does that is satisfied during a check.
func (p *DelayedOperationPurgatory[K]) SatisfyNow(op operation.Operation) {
	p.endNow(op, machine.Satisfied, nil)
}

// PooledKeys takes an array of the pool of keys, nil if there is none.
func (p *DelayedOperationPurgatory[K]) PooledKeys() *[]watchers.Wait[K] {
	pooled, _ := p.manyKeys.Get().(*[]watchers.Wait[K])
	return pooled
}

// LookAtStacks has every registration look at its stack, as all do once one has found a chain.
func (p *DelayedOperationPurgatory[K]) LookAtStacks() { p.chained.Store(true) }

// SameShard reports whether two keys have one shard.
func (p *DelayedOperationPurgatory[K]) SameShard(a, b K) bool {
	return p.watchers.Shard(p.watchers.Hash(a)) == p.watchers.Shard(p.watchers.Hash(b))
}

// LeaveStale calls f with the lock of key's shard held, so that the watches of operations that end in f stay in the
// key's list until a purge.
func (p *DelayedOperationPurgatory[K]) LeaveStale(key K, f func()) {
	shard := reflect.ValueOf(p.watchers.Shard(p.watchers.Hash(key))).Elem()
	mu := (*sched.Mutex)(shard.FieldByName("mu").FieldByName("Mutex").Addr().UnsafePointer())
	mu.Lock()
	f()
	mu.Unlock() // without a look at what was left
}

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
func HoldWorkers[K comparable](t testing.TB, p *DelayedOperationPurgatory[K]) *HeldWorkers {
	released := make(chan struct{})
	p.crew.pool.Init(p.cfg.signalWorkers, heldJob{&p.crew, released})
	h := &HeldWorkers{p.crew.pool.Running, p.crew.Queued, p.crew.Work, sync.OnceFunc(func() { close(released) })}
	t.Cleanup(h.Release)
	return h
}

// Work does what there is to do on the caller's goroutine.
func (h *HeldWorkers) Work() {
	for h.Step() {
	}
}
