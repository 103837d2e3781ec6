package purgatory

import (
	"context"
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/watchers"
)

// Close closes the purgatory at once: it rejects new operations, ends every pending
// operation as closed, with the callbacks on this goroutine, and tells the reaper and the
// workers to stop. It returns nil.
//
// Close does not block. If another goroutine is trying an operation at this moment, that
// goroutine ends it. Callbacks on other goroutines may still be running when Close
// returns; [DelayedOperationPurgatory.Shutdown] waits for them. Close may be called from
// any callback. A second call does nothing.
func (p *DelayedOperationPurgatory[K]) Close() error {
	p.close(false)
	return nil
}

// close is Close. With later, signal workers run the callbacks.
func (p *DelayedOperationPurgatory[K]) close(later bool) {
	p.draining.Store(true)
	first := !p.closed.Swap(true)
	if first {
		defer p.noteClose()()
		defer p.stop() // also when a callback ends the goroutine
	}
	// Shutdown also ends what an earlier Close has not reached, since a callback may block it.
	if first || later {
		p.watchers.Close()
		p.endAll(later)
	}
}

// endAll ends every operation as closed.
func (p *DelayedOperationPurgatory[K]) endAll(later bool) {
	done := false
	defer func() {
		if !done { // a callback has called runtime.Goexit
			sched.Go(func() { p.endAll(later) })
		}
	}()
	for s := range p.watchers.Shards() {
		eachKey(s, func(k watchers.Key[K]) bool {
			w := p.newWalk(k.Key, k.Hash, EveryPosition)
			w.claim, w.later = machine.Closed, later
			w.beginAt(k)
			return true
		})
	}
	p.emptied.Store(true)
	done = true
}

// stop tells the reaper and the purgatory's own timer to end. Signal workers still do the
// work that is queued.
func (p *DelayedOperationPurgatory[K]) stop() {
	p.purge() // the reaper does not purge again
	p.forgotten.close()
	if p.reaper != nil {
		p.reaper.Stop()
	}
	if p.own != nil {
		p.own.Stop()
	}
}

// Shutdown closes the purgatory gracefully. It rejects new operations, waits until the
// pending operations have ended or ctx has, and then closes the purgatory. It returns nil
// when every callback has run and every goroutine of the purgatory has ended.
//
// If ctx ends before that, Shutdown returns ctx's cause. Every operation has ended then,
// except those that other goroutines are registering or trying: these end them when the
// tries return.
// Signal workers run the callbacks, and Shutdown does not wait for them; call it again to
// wait. A Shutdown that is called from a callback waits for that callback, and so until
// ctx ends.
func (p *DelayedOperationPurgatory[K]) Shutdown(ctx context.Context) error {
	if !p.draining.Swap(true) {
		p.log(slog.LevelInfo, EventShutdown, "pending", p.NumDelayed())
	}
	// A registration may have looked at draining before. It must not be accepted after the
	// purgatory was found idle, because close would end it although it has time left.
	p.watchers.Seal()
	idle := p.poll(ctx, p.watchers.Quiet)
	p.close(true)
	if !idle || !p.poll(ctx, func() bool { return p.idle() && p.ended() }) {
		return context.Cause(ctx)
	}
	p.purge()
	if p.reaper != nil {
		return p.reaper.Wait(ctx)
	}
	return nil
}

// idle reports whether the callbacks of every accepted operation have run and returned,
// and no signal worker runs or has work.
func (p *DelayedOperationPurgatory[K]) idle() bool {
	return p.watchers.Quiet() && p.watchers.Inside() == 0 && p.crew.idle()
}

// ended reports whether the workers of the purgatory's own timer have ended, and no goroutine
// reports stuck callbacks.
func (p *DelayedOperationPurgatory[K]) ended() bool {
	return (p.own == nil || p.own.Idle()) && !p.callbacks.reporting.Load()
}

// poll returns true when quiet does, and false if ctx ends first. It polls, as net/http's
// Shutdown does: a notification would make every operation slower. In between it sweeps,
// because the reaper may have ended.
func (p *DelayedOperationPurgatory[K]) poll(ctx context.Context, quiet func() bool) bool {
	pause := time.Millisecond
	for !quiet() {
		if ctx.Err() != nil {
			return false
		}
		sched.Pause(pause, ctx.Done())
		pause = min(2*pause, 50*time.Millisecond)
		p.sweep()
	}
	return true
}
