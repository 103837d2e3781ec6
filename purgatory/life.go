package purgatory

import (
	"context"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/reaper"
)

type reaping struct {
	off sched.Bool // it was started, or is not to be

	mu struct { // lock level 8, taken with no other held
		sched.Mutex
		reaper *reaper.ExpirationReaper // nil: not started
	}
}

func (p *Purgatory[K]) startReaper() {
	r := &p.reaping
	if r.off.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.off.Swap(true) {
		r.mu.reaper = reaper.Start(p.entries.AdvanceClockUntil, p.cfg.reapInterval, p.reap())
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
func (p *Purgatory[K]) Closed() bool { return p.closed.Load() }

// Close refuses new operations, ends every pending one as closed, with the callbacks on this goroutine, and tells the
// reaper and the workers to stop. It returns nil. A second call does nothing.
//
// Close waits for no other goroutine, and may be called from any callback. An operation that another goroutine is
// trying is ended by that goroutine. [Purgatory.Shutdown] waits for that, and for callbacks that run elsewhere.
func (p *Purgatory[K]) Close() error {
	p.close(false)
	return nil
}

// close is Close. With later, signal workers run the callbacks.
func (p *Purgatory[K]) close(later bool) {
	p.closed.Store(true)
	first := !p.closing.Swap(true)
	if first {
		defer p.noteClosed(sched.Now())
		defer p.stop() // also when a callback ends the goroutine
	}
	// Shutdown also ends what an earlier Close has not reached, since a callback may block it.
	if first || later {
		p.endAll(later)
	}
}

// endAll ends every operation as closed, also if a callback calls runtime.Goexit.
func (p *Purgatory[K]) endAll(later bool) {
	over := false
	defer func() {
		if !over {
			p.endAll(later)
		}
	}()
	for f := range p.watchers.Each(0) {
		p.endKey(f.Wait, machine.Closed, nil, later)
	}
	over = true
}

// stop tells the reaper and the purgatory's own timer to end. Signal workers finish what is queued.
func (p *Purgatory[K]) stop() {
	p.watchers.Purge() // the reaper does not purge again
	p.crew.pool.Dismiss()
	if r := p.reaping.started(); r != nil {
		r.Stop()
	}
	if p.ownTimer != nil {
		p.ownTimer.Stop()
	}
}

// Shutdown refuses new operations, waits until the pending ones have ended or ctx has, and then closes the purgatory. It
// returns nil when every callback has run and every goroutine of the purgatory has ended.
//
// If ctx ends before that, Shutdown ends the operations that still wait, as closed, has workers run their callbacks,
// and returns ctx's cause when these have run: everybody has an answer then. Callbacks and tries that block hold it up
// for a second after ctx's end; then the error, which wraps ctx's cause, says how many operations are unanswered and
// names one, with its key: a String of the key that blocks holds Shutdown up, too. Where callbacks block all workers,
// more run than [WithWorkers] allows, up to 1,024, unless it allows one.
//
// Call Shutdown again to wait for what is unanswered. In a callback it waits for that callback as long as it may.
func (p *Purgatory[K]) Shutdown(ctx context.Context) error {
	mustContext(ctx, "Shutdown")
	p.closed.Store(true)
	quiet := p.poll(ctx.Done(), func() bool { return p.watchers.Totals(0).Unanswered == 0 })
	p.close(true)
	r := p.reaping.started()
	over := func() bool { return (r == nil || r.Ended()) && p.idle() } // in this order: the reaper's last sweep may start others
	if !p.poll(ctx.Done(), over) {
		// Everybody who can still have an answer gets it before the process ends.
		drained, stop := sched.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer stop()
		if !p.poll(drained.Done(), over) {
			who := ""
			t := p.watchers.Totals(0)
			if b := t.Blocked; b.For > 0 {
				who = fmt.Sprintf(": a method of a %v under key %s has been running for %v", b.Kind, observe.Key(b.Key), b.For)
			}
			return p.errorf(context.Cause(ctx), "%d operations are unanswered%s", t.Unanswered, who)
		}
	}
	p.watchers.Purge()
	written, stop := sched.WithTimeout(context.Background(), drainTime)
	defer stop()
	p.poll(written.Done(), p.records.Idle) // the logger may block
	if !quiet {
		return context.Cause(ctx)
	}
	return nil
}

const drainTime = time.Second // in which Shutdown still waits, after its context has ended and for the logger

// idle reports whether every accepted operation is answered, and no goroutine of the purgatory runs or has work.
func (p *Purgatory[K]) idle() bool {
	t := p.watchers.Totals(0)
	return t.Unanswered == 0 && t.Inside == 0 && p.crew.idle() && (p.ownTimer == nil || p.ownTimer.Idle())
}

// poll returns true when quiet does, and false if done is closed first. It sweeps, because the reaper may have ended.
// See docs/internals/decisions.md#shutdown-polls.
func (p *Purgatory[K]) poll(done <-chan struct{}, quiet func() bool) bool {
	pause := time.Millisecond
	for !quiet() {
		if sched.Closed(done) {
			return false
		}
		begun := p.crew.next.Load()
		sched.Pause(pause, done)
		pause = min(2*pause, 50*time.Millisecond)
		p.sweep(false)
		if p.closing.Load() && p.crew.Queued() && int(p.crew.next.Load()-begun) < p.crew.pool.Running() {
			p.crew.pool.Widen() // callbacks block workers, and others wait for one
		}
	}
	return true
}
