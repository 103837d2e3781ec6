package purgatory

import (
	"context"
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/timer"
)

// The messages of the records that go to the logger of [WithLogger]. They will not change.
// Each record has the attribute "purgatory", the purgatory's name. The records of callbacks
// also have "key": the key that was checked or cancelled, or else the first one of the
// operation.
const (
	// EventSlow: a callback took longer than WithSlowCallback allows. Warn: operation
	// (what its String method returns, or its type), callback (the method's name),
	// elapsed, age (of the operation), outcome, key.
	EventSlow = "purgatory.callback.slow"
	// EventStuck: a callback has been running for longer than WithSlowCallback allows,
	// and still runs. Warn: operation (its type: String is not called while a callback
	// runs), callback, elapsed, age, key, and stack with WithStuckStacks.
	EventStuck = "purgatory.callback.stuck"
	// EventPanic: an operation's method or the function of WithExecutor panicked. Error:
	// operation, callback, age, key (for a method only), panic, stack.
	EventPanic = "purgatory.callback.panic"
	// EventStalled: the reaper ran much later than planned, and timeouts may have been as
	// late. Warn: elapsed (since it last ran), interval.
	EventStalled = "purgatory.reaper.stalled"
	// EventRefused ("purgatory.executor.refused"): the executor of WithExecutor refused
	// work, which is offered again. Warn: error.
	EventRefused = timer.EventRefused
	// EventManyTimers ("purgatory.timers.many"): the program has more than 64 timers; let
	// purgatories share one (see WithTimer). Logged once per process. Warn: timers, hint.
	EventManyTimers = timer.EventManyTimers
	// EventPurged: a purge has removed entries of ended operations from the lists. Debug:
	// entries.
	EventPurged = "purgatory.purged"
	// EventShutdown: Shutdown has begun to wait. Info: pending.
	EventShutdown = "purgatory.shutdown"
	// EventClosed: Close has ended the pending operations. Info: closed (how many Close
	// ended), left (how many it left to goroutines that are trying them), satisfied,
	// forced, expired, cancelled (since New), elapsed.
	EventClosed = "purgatory.closed"
)

// logs reports whether the logger logs events of this level. Its handler is user code, which
// runs apart here and in log, because the caller may have work in hand that must not end
// with its goroutine.
func (p *DelayedOperationPurgatory[K]) logs(level slog.Level) (yes bool) {
	guard.Apart(func() { yes = p.logger.Enabled(context.Background(), level) }, nil)
	return yes
}

// log logs an event.
func (p *DelayedOperationPurgatory[K]) log(level slog.Level, event string, args ...any) {
	guard.Apart(func() {
		p.logger.Log(context.Background(), level, event, append([]any{"purgatory", p.name}, args...)...)
	}, p.panicked)
}

// notePanic counts a panic, logs it, and calls the handler. If there is no handler, and the
// logger does not log the panic, it logs it to slog's default logger.
func (p *DelayedOperationPurgatory[K]) notePanic(recovered any, stack []byte, about ...any) {
	p.panics.Add(1)
	logged := false
	logTo := func(l *slog.Logger) {
		guard.Apart(func() {
			args := append([]any{"purgatory", p.name}, about...)
			l.Error(EventPanic, append(args, "panic", textOf(recovered), "stack", string(stack))...)
			logged = true
		}, nil)
	}
	if p.logs(slog.LevelError) {
		logTo(p.logger)
	}
	if p.cfg.handled {
		p.cfg.panicHandler(recovered, stack)
	} else if !logged {
		logTo(slog.Default())
	}
}

// reap returns the function that the reaper calls each turn. It sweeps, and compares the
// time since the last turn with the reap interval: more than twice the interval, and at
// least 100 ms more than it, is a stall.
func (p *DelayedOperationPurgatory[K]) reap() func() {
	interval := p.cfg.reapInterval
	stalled := timer.Deadline(interval, max(interval, 100*time.Millisecond))
	last := time.Now()
	return func() {
		if elapsed := time.Since(last); elapsed > stalled {
			p.stalls.Add(1)
			p.log(slog.LevelWarn, EventStalled, "elapsed", elapsed, "interval", interval)
		}
		last = time.Now()
		p.sweep()
	}
}

// noteClose is called before Close ends the first operation. The function that it returns
// is called after the last.
func (p *DelayedOperationPurgatory[K]) noteClose() func() {
	before, began := p.totals(nil), time.Now()
	return func() {
		t := p.totals(nil)
		p.log(slog.LevelInfo, EventClosed,
			"closed", t.Counts[machine.Closed]-before.Counts[machine.Closed], "left", t.Pending(),
			"satisfied", t.Counts[machine.Satisfied], "forced", t.Counts[machine.Forced],
			"expired", t.Counts[machine.Expired], "cancelled", t.Counts[machine.Cancelled],
			"elapsed", time.Since(began))
	}
}
