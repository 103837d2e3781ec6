package purgatory

import (
	"context"
	"time"

	"github.com/delayedop/purgatory/operation"
)

// Close closes the purgatory at once: it takes no new operations, ends every
// pending one as closed, with the callbacks on this goroutine, and tells reaper and
// workers to stop. It waits for nobody: an operation that another goroutine is
// trying at this moment is ended by that one, and callbacks on other goroutines may
// still be running when it returns (Shutdown waits for them). It may be called from
// any callback, and again. It returns nil.
func (p *DelayedOperationPurgatory[K]) Close() error {
	p.draining.Store(true)
	if p.closed.Swap(true) {
		return nil
	}
	defer p.noteClose()()
	defer p.stop() // also when a callback ends the goroutine
	p.closeFrom(0)
	return nil
}

// closeFrom closes the shards from the i-th on, whatever callbacks do.
func (p *DelayedOperationPurgatory[K]) closeFrom(i int) {
	normal := false
	defer func() {
		if !normal { // runtime.Goexit: this is the last chance for the others
			p.closeFrom(i + 1)
		}
	}()
	shards := p.watchers.Shards()
	for ; i < len(shards); i++ {
		waiting := shards[i].Close()
		if len(waiting) == 0 {
			continue
		}
		c := p.checks.Get().(*check[K])
		c.shard, c.outcome, c.more = &shards[i], operation.Closed, false
		c.n = copy(c.ops[:], waiting)
		c.rest = waiting[c.n:]
		c.finish()
	}
	normal = true
}

// stop tells everything that runs in the background to end. What is queued for
// workers is still done.
func (p *DelayedOperationPurgatory[K]) stop() {
	p.purge() // nobody will afterwards
	if p.reaper != nil {
		p.reaper.Stop()
	}
	if p.own != nil {
		p.own.Stop()
	}
}

// Shutdown closes the purgatory gracefully: it takes no new operations, gives those
// that are pending until ctx ends to be completed, and then closes. It returns nil
// when every callback has run and every goroutine of the purgatory has ended;
// or, if ctx ends before, its cause, having closed the purgatory without waiting
// further. It may be called again, to wait for more. Called from a callback it can
// only wait in vain.
func (p *DelayedOperationPurgatory[K]) Shutdown(ctx context.Context) error {
	p.noteShutdown(p.draining.Swap(true))
	if !p.poll(ctx, p.idle) {
		// Callbacks may block, and this call must not.
		go p.Close()
		return context.Cause(ctx)
	}
	_ = p.Close()
	if !p.poll(ctx, func() bool { return p.idle() && p.ended() }) {
		return context.Cause(ctx)
	}
	p.purge()
	if p.reaper != nil {
		return p.reaper.Wait(ctx)
	}
	return nil
}

// poll returns true when quiet says so, false when ctx ends first. It asks again
// and again, as net/http's Shutdown does: to be told would cost every operation
// something, for the sake of a moment that comes once. In between it does the
// reaper's second job, for the reaper may have ended.
func (p *DelayedOperationPurgatory[K]) poll(ctx context.Context, quiet func() bool) bool {
	pause := time.Millisecond
	ask := time.NewTimer(pause)
	defer ask.Stop()
	for !quiet() {
		select {
		case <-ctx.Done():
			return quiet()
		case <-ask.C:
			pause = min(2*pause, 50*time.Millisecond)
			ask.Reset(pause)
			p.sweep()
		}
	}
	return true
}
