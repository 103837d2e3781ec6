package purgatory

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/reaper"
	"github.com/delayedop/purgatory/timer"
)

// life is how far a purgatory has come. It only grows. It is safe for concurrent use.
type life struct{ era sched.Uint32 }

// The eras of a purgatory.
const (
	open     uint32 = iota
	draining        // Shutdown or Close has begun: no operation is accepted
	closing         // Close has begun
	emptied         // Close, or Shutdown, has ended what waited, in every shard
)

// atLeast reports whether the purgatory has come as far as era.
func (l *life) atLeast(era uint32) bool { return l.era.Load() >= era }

// become brings the purgatory as far as era, and reports whether this call has done that.
func (l *life) become(era uint32) (first bool) {
	for now := l.era.Load(); now < era; now = l.era.Load() {
		if l.era.CompareAndSwap(now, era) {
			return true
		}
	}
	return false
}

// reaping is the purgatory's reaper, which is started when the first operation has a timeout that passes.
type reaping struct {
	off  sched.Bool // it was started, or is not to be
	made uintptr    // where New was called, for its labels

	mu struct { // lock level 8, taken with no other held
		sched.Mutex
		reaper *reaper.ExpirationReaper // nil: not started
	}
}

// startReaper starts the reaper, unless it was started or the purgatory has been closed.
func (p *DelayedOperationPurgatory[K]) startReaper() {
	r := &p.reaping
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.off.Swap(true) {
		r.mu.reaper = reaper.Start(labelled{p.timer, labels(p.name, r.made)}, p.cfg.reapInterval, p.reap(), p.records.Panicked)
	}
}

// started returns the reaper, nil if it was not started. It will not be started any more.
func (r *reaping) started() *reaper.ExpirationReaper {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off.Store(true)
	return r.mu.reaper
}

// Closed reports whether Close or Shutdown has begun: no operation is accepted any more.
func (p *DelayedOperationPurgatory[K]) Closed() bool { return p.life.atLeast(draining) }

// Close closes the purgatory at once: it refuses new operations, ends every pending
// operation as closed, with the callbacks on this goroutine, and tells the reaper and the
// workers to stop. It returns nil.
//
// Close waits for no other goroutine. When it returns, the callbacks of the operations that it has ended
// have run, unless its stack is over 400 frames deep. If another goroutine is trying an operation at this
// moment, that goroutine ends it; callbacks on other goroutines may still be running, too;
// [DelayedOperationPurgatory.Shutdown] waits for both. Close may be called from
// any callback. A second call does nothing.
func (p *DelayedOperationPurgatory[K]) Close() error {
	p.made()
	p.close(false)
	return nil
}

// close is Close. With later, signal workers run the callbacks.
func (p *DelayedOperationPurgatory[K]) close(later bool) {
	first := p.life.become(closing)
	if first {
		if !p.records.Off() {
			defer p.noteClose(time.Now())
		}
		defer p.stop() // also when a callback ends the goroutine
	}
	// Shutdown also ends what an earlier Close has not reached, since a callback may block it.
	if first || later {
		p.watchers.Close()
		guard.Finish(p.endAll, later)
	}
}

// endAll ends every operation as closed, and returns true.
func (p *DelayedOperationPurgatory[K]) endAll(later bool) bool {
	for k := range p.watchers.AllKeys() {
		p.claimForKey(k.Key, k.Hash, claiming[K]{outcome: machine.Closed, later: later}, nil)
	}
	p.life.become(emptied)
	return true
}

// stop tells the reaper and the purgatory's own timer to end. Signal workers still do the
// work that is queued.
func (p *DelayedOperationPurgatory[K]) stop() {
	p.purge() // the reaper does not purge again
	p.crew.pool.Dismiss()
	if r := p.reaping.started(); r != nil {
		r.Stop()
	}
	if p.ownTimer != nil {
		p.ownTimer.Stop()
	}
}

// Shutdown closes the purgatory gracefully. It refuses new operations (also one whose condition is met: nobody asks), waits until the
// pending operations have ended or ctx has, and then closes the purgatory. It returns nil
// when every callback has run and every goroutine of the purgatory has ended. (A registration that
// goes on meanwhile, and is refused, may start a worker, which finds nothing and ends.)
//
// If ctx ends before that, Shutdown ends the operations that still wait, as closed, has workers run their
// callbacks, and returns ctx's cause when these have run: everybody has an answer then. Callbacks that block hold up
// no others: if they block workers, more run than [WithSignalWorkers] allows, up to 1,024, unless it allows one. They,
// and tries that block, hold Shutdown up for a second after ctx's end at most (see [WithDrainTime]); the error,
// which wraps ctx's cause, then says how many operations are unanswered. Call Shutdown again to wait
// for these. A Shutdown that is called from a callback waits for that callback, and so as long as it may.
func (p *DelayedOperationPurgatory[K]) Shutdown(ctx context.Context) error {
	p.made()
	mustContext(ctx, "Shutdown")
	if p.life.become(draining) {
		p.records.Log(slog.LevelInfo, EventShutdown, "pending", p.NumDelayed())
	}
	// A registration may have read the era before. It must not be accepted after the
	// purgatory was found idle, because close would end it although it has time left.
	p.watchers.Close()
	quiet := p.poll(ctx.Done(), func() bool { return p.watchers.Unanswered() == 0 })
	p.close(true)
	r := p.reaping.started()
	over := func() bool { return (r == nil || r.Ended()) && p.idle() } // in this order: the reaper's last sweep may start others
	if !p.poll(ctx.Done(), over) {
		// Everybody who can still have an answer gets it before the process ends.
		drained, stop := sched.WithTimeout(context.WithoutCancel(ctx), p.cfg.drainTime)
		defer stop()
		if !p.poll(drained.Done(), over) {
			return p.errorf(context.Cause(ctx), "%d operations are unanswered", p.watchers.Unanswered())
		}
	}
	p.purge()
	if !quiet {
		return context.Cause(ctx)
	}
	return nil
}

// idle reports whether the callbacks of every accepted operation have run and returned, no worker
// runs or has work, and no goroutine logs for a sweep.
func (p *DelayedOperationPurgatory[K]) idle() bool {
	return p.watchers.Unanswered() == 0 && p.watchers.Inside() == 0 && p.crew.idle() &&
		(p.ownTimer == nil || p.ownTimer.Idle()) && !p.reporting.Load()
}

// poll returns true when quiet does, and false if done is closed first. It polls, as net/http's
// Shutdown does: a notification would make every operation slower. In between it sweeps,
// because the reaper may have ended. See docs/decisions.md#shutdown-polls.
func (p *DelayedOperationPurgatory[K]) poll(done <-chan struct{}, quiet func() bool) bool {
	pause := time.Millisecond
	for !quiet() {
		if sched.Closed(done) {
			return false
		}
		begun := p.crew.next.Load()
		sched.Pause(pause, done)
		pause = min(2*pause, 50*time.Millisecond)
		p.sweep(0)
		if p.life.atLeast(emptied) && p.crew.Queued() && int(p.crew.next.Load()-begun) < p.crew.pool.Running() {
			p.crew.pool.Widen() // callbacks block workers, and others wait for one
		}
	}
	return true
}

// labelled is a timer for the reaper, whose goroutine gets labels: the purgatory's name, and where
// New was called. Goroutine profiles show them, and with GODEBUG=tracebacklabels=1 (from Go 1.26 on)
// all stacks, among them those that goleak prints. The expiry workers that the reaper starts inherit
// them.
type labelled struct {
	timer  timer.Timer
	labels context.Context
}

// AdvanceClockUntil sets the labels each time, since after a runtime.Goexit another goroutine is the reaper.
func (l labelled) AdvanceClockUntil(stop <-chan struct{}, d time.Duration) bool {
	pprof.SetGoroutineLabels(l.labels)
	return l.timer.AdvanceClockUntil(stop, d)
}

// labels returns the labels of a purgatory with this name; made is the program counter of the call of New.
func labels(name string, at uintptr) context.Context {
	made := "?"
	if frame, _ := runtime.CallersFrames([]uintptr{at}).Next(); frame.File != "" {
		made = frame.File + ":" + strconv.Itoa(frame.Line)
	}
	return pprof.WithLabels(context.Background(), pprof.Labels("purgatory", name, "made at", made))
}

// caller returns the program counter of the call of New, which calls caller.
func caller() uintptr {
	var at [1]uintptr
	runtime.Callers(3, at[:])
	return at[0]
}
