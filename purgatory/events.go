package purgatory

import (
	"context"
	"log/slog"
	"runtime/trace"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
)

// The messages of the records that go to the logger of [WithLogger]. They will not change.
// Each record has the attribute "purgatory", the purgatory's name. The records of callbacks
// also have "key", the operation's first key. Of each event, a purgatory logs at most ten
// records a second; the next one then has the attribute "suppressed", the number of those that
// were dropped.
const (
	// EventSlow ("purgatory.callback.slow"): a callback took longer than WithSlowCallback allows. Warn: operation
	// (what its String method returns, or its type), callback (the method's name),
	// elapsed, age (of the operation), outcome, key.
	EventSlow = observe.EventSlow
	// EventStuck ("purgatory.callback.stuck"): a callback has been running for longer than
	// WithSlowCallback allows, and still runs. Warn: operation (its type: String is not called while a callback
	// runs), callback, elapsed, age, key, and stack with WithStuckStacks.
	EventStuck = observe.EventStuck
	// EventPanic ("purgatory.callback.panic"): an operation's method panicked. Error: operation,
	// callback, age, key (for a method only), panic, stack.
	EventPanic = observe.EventPanic
	// EventStalled: the reaper ran much later than planned, and timeouts may have been as
	// late. Warn: elapsed (since it last ran), interval.
	EventStalled = "purgatory.reaper.stalled"
	// EventDue: expired operations wait for an expiry worker, one for longer than a second:
	// callbacks block the workers, or there are too few. Logged once a second while it lasts.
	// Warn: due (how many wait, a lower bound), elapsed (how long the first of them has
	// waited). Operations of other purgatories that share the timer count, too.
	EventDue = "purgatory.expiry.due"
	// EventShortTimeout: a timeout is shorter than a tick, as 30 is, which means 30 ns. Logged once by
	// each purgatory, by slog's default logger if that of WithLogger does not log warnings. Warn:
	// timeout, tick, hint.
	EventShortTimeout = "purgatory.timeout.short"
	// EventManyTimers ("purgatory.timers.many"): more than 64 timers are driven and have not been stopped; let
	// purgatories share one (see WithTimer). Logged once per process. Warn: timers, hint.
	EventManyTimers = timer.EventManyTimers
	// EventPurged: a purge has removed entries of ended operations from the lists. Debug:
	// entries.
	EventPurged = "purgatory.purged"
	// EventShutdown: Shutdown has begun to wait. Info: pending.
	EventShutdown = "purgatory.shutdown"
	// EventClosed: Close has ended the pending operations. Info: closed (how many Close
	// ended), left (how many the goroutines that are trying them will end), satisfied,
	// forced, expired, cancelled (since New), elapsed.
	EventClosed = "purgatory.closed"
)

// events is what the purgatory counts and logs of itself, other than what its shards count.
type events struct {
	refused    refusals
	passedOver atomic.Int64
	purged     atomic.Int64
	stalls     atomic.Int64 // of the reaper, see EventStalled

	tick      time.Duration // of the timer
	hastySeen atomic.Bool   // a timeout was shorter
	reporting sched.Bool    // a sweep collects what is to be logged, or a goroutine logs it
	gatesSeen atomic.Int64  // when noteGates last read the gates, on the timer's clock
	dueSeen   time.Duration // when overdue last asked the timer, on the timer's clock
}

// noteClose logs that Close has ended the last operation.
func (p *DelayedOperationPurgatory[K]) noteClose(began time.Time) {
	t := p.totals(nil)
	p.records.Log(slog.LevelInfo, EventClosed,
		"closed", t.Counts[machine.Closed], "left", t.Pending(),
		"satisfied", t.Counts[machine.Satisfied]+t.Met, "forced", t.Counts[machine.Forced],
		"expired", t.Counts[machine.Expired], "cancelled", t.Counts[machine.Cancelled],
		"elapsed", time.Since(began))
}

// Regions of execution traces (runtime/trace). Inside each, the name of the purgatory is
// logged with category "purgatory".
const (
	regionCheck     = "purgatory.check"
	regionCallbacks = "purgatory.callbacks"
)

// region begins a region of the execution trace, and returns what ends it.
func (p *DelayedOperationPurgatory[K]) region(name string) (end func()) {
	ctx := context.Background()
	r := trace.StartRegion(ctx, name)
	trace.Log(ctx, "purgatory", p.name)
	return r.End
}
