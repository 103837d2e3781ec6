// Package observe is what a purgatory tells its logger and its panic handler.
package observe

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
)

// EventPanic is the record of a panic.
const EventPanic = "purgatory.panic"

// Records are the records of a purgatory, of each event at most recordsPerSecond a second. A goroutine of their own
// calls the logger and the handler. They are safe for concurrent use.
type Records struct {
	Purgatory string        // its name; this and the next two are constant
	Logger    *slog.Logger  // nil: nothing is logged but panics
	Handler   guard.Handler // of panics; may be nil

	panics atomic.Int64 // not explored: it only counts
	queue  Queue

	mu struct { // lock level 8, taken with no other held
		sched.Mutex
		events map[string]recordCount
	}
}

const recordsPerSecond = 10

// recordCount is the number of records of an event since a time, up to a second.
type recordCount struct {
	since time.Time
	n     int
}

// Panics returns how many panics there were.
func (r *Records) Panics() int64 { return r.panics.Load() }

// Idle reports whether every record has been written, or dropped.
func (r *Records) Idle() bool { return r.queue.Idle() }

// allow reports whether a record of event may be logged, and how many were suppressed before it.
func (r *Records) allow(event string) (suppressed int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.mu.events[event]
	if now := sched.Now(); now.Sub(c.since) >= time.Second {
		suppressed = max(c.n-recordsPerSecond, 0)
		c = recordCount{since: now}
	}
	if r.mu.events == nil {
		r.mu.events = make(map[string]recordCount)
	}
	c.n++
	r.mu.events[event] = c
	return suppressed, c.n <= recordsPerSecond
}

// Log logs an event, unless there are too many records of it. args returns its attributes; it runs where the logger
// does, and may format keys.
func (r *Records) Log(level slog.Level, event string, args func() []any) {
	if r.Logger == nil {
		return
	}
	if suppressed, ok := r.allow(event); ok {
		r.queue.Add(func() { r.write(r.Logger, level, event, args(), suppressed) })
	}
}

// write reports whether l has logged an event.
func (r *Records) write(l *slog.Logger, level slog.Level, event string, args []any, suppressed int) bool {
	ctx := context.Background()
	if l == nil || !l.Enabled(ctx, level) {
		return false
	}
	if suppressed += r.queue.Dropped(); suppressed > 0 {
		args = append(args, "suppressed", suppressed)
	}
	l.Log(ctx, level, event, append([]any{"purgatory", r.Purgatory}, args...)...)
	return true
}

// Panicked is Panic for user code other than an operation's method.
func (r *Records) Panicked(recovered any, stack []byte) {
	r.panicked(recovered, stack, func() []any { return nil })
}

// Panic counts v, the value of a panic in a method of op, logs it, and calls the handler. Call it in the deferred
// function that has recovered v: the stack still has the panic there.
func (r *Records) Panic(v, op any, method string, key any) {
	kind := fmt.Sprintf("%T", op) // now: a record that waits must not keep op in memory
	r.panicked(v, debug.Stack(), func() []any {
		return []any{"operation", kind, "callback", method, "key", Key(key)}
	})
}

// panicked has slog's default logger write the panic if there is no handler, and the logger has not: it may panic, too.
func (r *Records) panicked(v any, stack []byte, about func() []any) {
	r.panics.Add(1)
	suppressed, ok := r.allow(EventPanic)
	if !ok && r.Handler == nil {
		return
	}
	r.queue.Add(func() {
		var args []any
		logged := !ok
		defer func() {
			switch {
			case r.Handler != nil:
				r.Handler(v, stack)
			case !logged:
				r.write(slog.Default(), slog.LevelError, EventPanic, args, suppressed)
			}
		}()
		if ok {
			args = append(about(), "panic", guard.Text(v), "stack", string(stack))
			logged = r.write(r.Logger, slog.LevelError, EventPanic, args, suppressed)
		}
	})
}
