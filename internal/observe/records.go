// Package observe is what a purgatory says about itself, other than its counters: the records of its
// logger, the panics of user code, and the callbacks that are slow or do not return.
package observe

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
)

// EventPanic is the record of a panic.
const EventPanic = "purgatory.callback.panic"

// Records are the records of a purgatory. Of each event they have at most recordsPerSecond a second.
// They are safe for concurrent use.
type Records struct {
	purgatory string
	logger    *slog.Logger
	handler   guard.Handler        // of panics; may be nil
	now       func() time.Duration // the timer's clock

	panics atomic.Int64

	mu struct { // lock level 8, taken with no other held
		sync.Mutex
		events map[string]recordCount
	}
}

// recordsPerSecond is how many records of an event are logged in a second.
const recordsPerSecond = 10

// recordCount is the number of records of an event since a time, up to a second.
type recordCount struct {
	since time.Time
	n     int
}

// NewRecords returns the records of the purgatory with this name. handler may be nil.
func NewRecords(purgatory string, logger *slog.Logger, handler guard.Handler, now func() time.Duration) *Records {
	return &Records{purgatory: purgatory, logger: logger, handler: handler, now: now}
}

// Off reports whether nobody reads the records: the default.
func (r *Records) Off() bool { return r.logger.Handler() == slog.DiscardHandler }

// Panics returns how many panics there were.
func (r *Records) Panics() int64 { return r.panics.Load() }

// allow reports whether a record of event may be logged, and returns its attributes: args, and how
// many records were suppressed before.
func (r *Records) allow(event string, args []any) (all []any, ok bool) {
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

// left returns how many records of event may be logged now.
func (r *Records) left(event string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.mu.events[event]
	if time.Since(c.since) >= time.Second {
		return recordsPerSecond
	}
	return max(recordsPerSecond-c.n, 0)
}

// Log logs an event, unless there are too many records of it.
func (r *Records) Log(level slog.Level, event string, args ...any) {
	if r.Off() {
		return
	}
	if args, ok := r.allow(event, args); ok {
		r.tell(r.logger, level, event, args, r.Panicked)
	}
}

// LogOrDefault logs an event, by slog's default logger if the purgatory's does not log it.
func (r *Records) LogOrDefault(level slog.Level, event string, args ...any) {
	if !r.tell(r.logger, level, event, args, nil) {
		r.tell(slog.Default(), level, event, args, nil)
	}
}

// tell reports whether l has logged an event. The handler of l is user code, which runs apart,
// because the caller may have work in hand that must not end with its goroutine. A panic goes to h.
func (r *Records) tell(l *slog.Logger, level slog.Level, event string, args []any, h guard.Handler) (logged bool) {
	guard.Apart(func() {
		if ctx := context.Background(); l.Enabled(ctx, level) {
			l.Log(ctx, level, event, append([]any{"purgatory", r.purgatory}, args...)...)
			logged = true
		}
	}, h)
	return logged
}

// Panicked counts a panic in user code other than an operation's method, logs it, and calls the handler.
func (r *Records) Panicked(recovered any, stack []byte) { r.panicked(recovered, stack, nil) }

// panicked is Panicked with attributes. If there is no handler, and the logger does not log the panic, it
// logs it to slog's default logger.
func (r *Records) panicked(recovered any, stack []byte, about []any) {
	r.panics.Add(1)
	args, ok := r.allow(EventPanic, append(about, "panic", guard.Text(recovered), "stack", string(stack)))
	if ok && !r.tell(r.logger, slog.LevelError, EventPanic, args, nil) && r.handler == nil {
		r.tell(slog.Default(), slog.LevelError, EventPanic, args, nil)
	}
	if r.handler != nil {
		r.handler(recovered, stack)
	}
}

// Blame returns the handler of a panic in callback, a method of m or a function that is called with
// m. The record calls the operation by name.
func (r *Records) Blame(m *machine.Machine, name, callback string, key any) guard.Handler {
	return func(recovered any, stack []byte) {
		r.panicked(recovered, stack, []any{"operation", name, "callback", callback, "age", r.AgeOf(m), "key", Key(key)})
	}
}

// Recovered returns what reports v, the value of a panic in a method of m. The deferred function that has
// recovered v calls Recovered: the stack still has the panic there. The operation is named by its String
// method; the caller holds m, or has just run one of its callbacks.
func (r *Records) Recovered(v any, m *machine.Machine, method string, key any) (report func()) {
	stack := debug.Stack()
	name := Name(m, func(any, []byte) {}) // one panic is reported, not that of String, too
	return func() { guard.Report(v, stack, r.Blame(m, name, method, key)) }
}

// AgeOf returns how long ago m was accepted, 0 if it has not been watched.
func (r *Records) AgeOf(m *machine.Machine) time.Duration {
	if m.Start() < 0 {
		return 0
	}
	return r.now() - m.Start()
}
