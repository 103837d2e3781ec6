package purgatory

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

// What the logger of WithLogger is told: the message of each record, which will not
// change. All have the attribute "purgatory", its name.
const (
	// EventSlow: a callback took longer than WithSlowCallback allows. Warn:
	// operation (its type), callback, elapsed, outcome.
	EventSlow = "purgatory.callback.slow"
	// EventPanic: an operation's method panicked. Error: panic, stack.
	EventPanic = "purgatory.callback.panic"
	// EventStalled: the reaper came back much later than it should have; timeouts
	// were late by as much. Warn: elapsed, interval.
	EventStalled = "purgatory.reaper.stalled"
	// EventRefused ("purgatory.executor.refused"): the executor of WithExecutor refused
	// work, which is offered again. Warn: error.
	EventRefused = timer.EventRefused
	// EventManyTimers ("purgatory.timers.many"): a program has far more purgatories, each
	// with a timer of its own, than it can need; said once. Warn: timers, hint.
	EventManyTimers = timer.EventManyTimers
	// EventPurged: watches of ended operations were taken out. Debug: entries.
	EventPurged = "purgatory.purged"
	// EventShutdown: Shutdown has begun to wait. Info: pending.
	EventShutdown = "purgatory.shutdown"
	// EventClosed: Close has ended what was pending. Info: closed (by it), left (to
	// goroutines that are trying them at this moment), and how all operations ended
	// since New: satisfied, forced, expired, cancelled; elapsed.
	EventClosed = "purgatory.closed"
)

func (p *DelayedOperationPurgatory[K]) logs(level slog.Level) bool {
	return p.logger.Enabled(context.Background(), level)
}

// notePanic is what everything of this purgatory that meets a panic calls.
func (p *DelayedOperationPurgatory[K]) notePanic(recovered any, stack []byte) {
	p.panics.Add(1)
	logged := p.logs(slog.LevelError)
	if logged {
		p.logger.Error(EventPanic, "purgatory", p.name, "panic", fmt.Sprint(recovered), "stack", string(stack))
	}
	switch {
	case p.cfg.handled:
		p.cfg.panicked(recovered, stack)
	case !logged:
		guard.Log(recovered, stack)
	}
}

// reap returns what the reaper does each time round: sweep, and look at the clock if
// somebody wants to know. It should come back after a reap interval at most; twice
// that, and no less than 100 ms more, is a stall.
func (p *DelayedOperationPurgatory[K]) reap() func() {
	if !p.logs(slog.LevelWarn) {
		return p.sweep
	}
	interval := p.cfg.reapInterval
	stalled := interval + max(interval, 100*time.Millisecond)
	last := time.Now()
	return func() {
		if elapsed := time.Since(last); elapsed > stalled {
			p.logger.Warn(EventStalled, "purgatory", p.name, "elapsed", elapsed, "interval", interval)
		}
		last = time.Now()
		p.sweep()
	}
}

func (p *DelayedOperationPurgatory[K]) noteShutdown(again bool) {
	if !again && p.logs(slog.LevelInfo) {
		p.logger.Info(EventShutdown, "purgatory", p.name, "pending", p.NumDelayed())
	}
}

// noteClose is called before Close ends anything, what it returns afterwards.
func (p *DelayedOperationPurgatory[K]) noteClose() func() {
	if !p.logs(slog.LevelInfo) {
		return func() {}
	}
	before, began := p.totals(), time.Now()
	return func() {
		t := p.totals()
		p.logger.Info(EventClosed, "purgatory", p.name,
			"closed", t.Counts[operation.Closed]-before.Counts[operation.Closed], "left", max(t.Counts[operation.Pending], 0),
			"satisfied", t.Counts[operation.Satisfied], "forced", t.Counts[operation.Forced],
			"expired", t.Counts[operation.Expired], "cancelled", t.Counts[operation.Cancelled],
			"elapsed", time.Since(began))
	}
}
