package purgatory

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/trace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
)

// The messages of the records that go to the logger of [WithLogger]. They will not change.
// Each record has the attribute "purgatory", the purgatory's name. The records of callbacks
// also have "key", the operation's first key. Of each event, a purgatory logs at most ten
// records a second; the next one then has the attribute "suppressed", the number of those that
// were left out.
const (
	// EventSlow: a callback took longer than WithSlowCallback allows. Warn: operation
	// (what its String method returns, or its type), callback (the method's name),
	// elapsed, age (of the operation), outcome, key.
	EventSlow = "purgatory.callback.slow"
	// EventStuck: a callback has been running for longer than WithSlowCallback allows,
	// and still runs. Warn: operation (its type: String is not called while a callback
	// runs), callback, elapsed, age, key, and stack with WithStuckStacks.
	EventStuck = "purgatory.callback.stuck"
	// EventPanic: an operation's method panicked. Error: operation, callback, age, key (for a
	// method only), panic, stack.
	EventPanic = "purgatory.callback.panic"
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

// events is what the purgatory counts and logs of itself, other than what its shards count.
type events struct {
	logger   *slog.Logger
	panicked guard.Handler // of a panic in user code other than an operation's method
	records  recordRate

	refused    refusals
	panics     atomic.Int64
	passedOver atomic.Int64
	purges     atomic.Int64
	purged     atomic.Int64
	stalls     atomic.Int64  // of the reaper, see EventStalled
	samples    atomic.Uint32 // taken by Inspect, each of other keys

	tick      time.Duration // of the timer
	hastySeen atomic.Bool   // a timeout was shorter
	gatesSeen atomic.Int64  // when lookAtGates last looked, on the timer's clock
	reporting sched.Bool    // a sweep looks for what is to be logged, or a goroutine logs it
	dueSeen   time.Duration // when overdue last looked, on the timer's clock
}

// recordsPerSecond is how many records of an event are logged in a second.
const recordsPerSecond = 10

// recordRate counts the records of each event in the current second. It is safe for concurrent
// use.
type recordRate struct {
	mu struct { // lock level 8, taken with no other held
		sync.Mutex
		events map[string]recordCount
	}
}

// recordCount is the number of records of an event since a time, up to a second.
type recordCount struct {
	since time.Time
	n     int
}

// allow reports whether a record of event may be logged, and returns its attributes: args, and how
// many records were suppressed before.
func (r *recordRate) allow(event string, args []any) (all []any, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.mu.events[event]
	if time.Since(c.since) >= time.Second {
		if suppressed := c.n - recordsPerSecond; suppressed > 0 {
			args = append(args, "suppressed", suppressed)
		}
		c = recordCount{since: time.Now()}
	}
	c.n++
	if r.mu.events == nil {
		r.mu.events = make(map[string]recordCount)
	}
	r.mu.events[event] = c
	return args, c.n <= recordsPerSecond
}

// log logs an event, unless there are too many records of it.
func (p *DelayedOperationPurgatory[K]) log(level slog.Level, event string, args ...any) {
	if p.logger.Handler() == slog.DiscardHandler { // the default: nothing to count
		return
	}
	if args, ok := p.records.allow(event, args); ok {
		p.tell(p.logger, level, event, args, p.panicked)
	}
}

// tell reports whether l has logged an event. The handler of l is user code, which runs apart,
// because the caller may have work in hand that must not end with its goroutine. A panic goes to h.
func (p *DelayedOperationPurgatory[K]) tell(l *slog.Logger, level slog.Level, event string, args []any, h guard.Handler) (logged bool) {
	guard.Apart(func() {
		if ctx := context.Background(); l.Enabled(ctx, level) {
			l.Log(ctx, level, event, append([]any{"purgatory", p.name}, args...)...)
			logged = true
		}
	}, h)
	return logged
}

// notePanic counts a panic, logs it, and calls the handler. If there is no handler, and the
// logger does not log the panic, it logs it to slog's default logger.
func (p *DelayedOperationPurgatory[K]) notePanic(recovered any, stack []byte, about ...any) {
	p.panics.Add(1)
	args, ok := p.records.allow(EventPanic, append(about, "panic", guard.Text(recovered), "stack", string(stack)))
	if ok && !p.tell(p.logger, slog.LevelError, EventPanic, args, nil) && p.cfg.panicHandler == nil {
		p.tell(slog.Default(), slog.LevelError, EventPanic, args, nil)
	}
	if p.cfg.panicHandler != nil {
		p.cfg.panicHandler(recovered, stack)
	}
}

// blame returns the handler of a panic in callback, a method of m or a function that is called with
// m. The record calls the operation by name.
func (p *DelayedOperationPurgatory[K]) blame(m *machine.Machine, name, callback string, key K) guard.Handler {
	return func(recovered any, stack []byte) {
		p.notePanic(recovered, stack, "operation", name, "callback", callback, "age", p.ageOf(m), "key", keyText(key))
	}
}

// reap returns the function that the reaper calls each turn. It sweeps, and compares the
// time since the last turn with the reap interval: more than twice the interval, and at
// least 100 ms more than it, is a stall.
func (p *DelayedOperationPurgatory[K]) reap() func() {
	interval := p.cfg.reapInterval
	stalled := timer.Deadline(interval, max(interval, 100*time.Millisecond))
	last := sched.Now()
	return func() {
		elapsed := sched.Since(last)
		if elapsed > stalled {
			p.stalls.Add(1)
		} else {
			elapsed = 0
		}
		last = sched.Now()
		p.sweep(elapsed)
	}
}

// dueLimit is how long an expired operation may wait for a worker before it is logged, and
// how often overdue looks: a busy reaper sweeps many times a second.
const dueLimit = time.Second

// overdue returns how many expired operations wait for a worker, and how long the oldest has, if it
// is time to log that. The caller has set reporting.
func (p *DelayedOperationPurgatory[K]) overdue() (n int, oldest time.Duration) {
	if now := p.timer.Now(); now-p.dueSeen >= dueLimit {
		p.dueSeen = now
		n, oldest = timer.Due(p.timer)
	}
	if oldest <= dueLimit {
		return 0, 0
	}
	return n, oldest
}

// noteClose logs that Close has ended the last operation.
func (p *DelayedOperationPurgatory[K]) noteClose(began time.Time) {
	t := p.totals(nil)
	p.log(slog.LevelInfo, EventClosed,
		"closed", t.Counts[machine.Closed], "left", t.Pending(),
		"satisfied", t.Counts[machine.Satisfied]+t.Met, "forced", t.Counts[machine.Forced],
		"expired", t.Counts[machine.Expired], "cancelled", t.Counts[machine.Cancelled],
		"elapsed", time.Since(began))
}

// waitsIn returns "Await", "AwaitRead" or "Wait" if op is the operation behind one, else "".
func waitsIn(op any) string {
	if w, ok := op.(interface{ waitsIn() string }); ok {
		return w.waitsIn()
	}
	return ""
}

// kindOf names op in errors and logs: by what it waits in, or by its type.
func kindOf(op any) string { return cmp.Or(waitsIn(op), fmt.Sprintf("%T", op)) }

// nameOf returns what the String method of m's operation returns, or the operation's kind if it has
// none. It is for the holder of m, and for the goroutine that has just run one of m's callbacks.
// A panic goes to h.
func nameOf(m *machine.Machine, h guard.Handler) string {
	return cmp.Or(textOf(m, h), kindOf(m.Operation()))
}

// textOf is nameOf without the kind. String runs apart: a runtime.Goexit there does not undo what
// the calling goroutine has found out.
func textOf(m *machine.Machine, h guard.Handler) (text string) {
	if s, ok := m.Operation().(fmt.Stringer); ok {
		guard.Apart(func() { text = cut(s.String()) }, h)
	}
	return text
}

// keyText formats a key.
func keyText(key any) string { return cut(guard.Text(key)) }

const maxText = 200 // bytes of a key or an operation

// cut returns valid UTF-8 of bounded length.
func cut(s string) string {
	const invalid = "\uFFFD"
	if len(s) <= maxText {
		return strings.ToValidUTF8(s, invalid)
	}
	// A character that is cut in two becomes an invalid one at the end.
	return strings.TrimSuffix(strings.ToValidUTF8(s[:maxText], invalid), invalid) + "…"
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
