// Package logging hands records to a handler that may block, and holds nobody up who logs.
package logging

import (
	"context"
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/internal/sched"
)

// Handler is a [slog.Handler] that never blocks, whatever the one behind it does: an [observe.Queue] hands the records
// over, in order, if their level is enabled there. A Handler is safe for concurrent
// use, and shares its queue with those that WithAttrs and WithGroup return.
type Handler struct {
	to slog.Handler
	*shared
}

type shared struct {
	queue    observe.Queue
	lost     string
	panicked guard.Handler
}

// New returns a Handler in front of to. The message lost tells it how many records were lost, in the attribute
// "records". A panic in to loses its record, and goes to panicked on the goroutine that hands over.
func New(to slog.Handler, lost string, panicked guard.Handler) *Handler {
	return &Handler{to, &shared{lost: lost, panicked: panicked}}
}

// Enabled reports whether records are handed over, at whatever level.
func (h *Handler) Enabled(context.Context, slog.Level) bool { return h.to != slog.DiscardHandler }

// WithAttrs calls that method of the handler behind h, and may block.
func (h *Handler) WithAttrs(a []slog.Attr) slog.Handler { return &Handler{h.to.WithAttrs(a), h.shared} }

// WithGroup calls that method of the handler behind h, and may block.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.to.WithGroup(name), h.shared}
}

// Handle queues r, or counts it as lost.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	r = r.Clone()
	h.queue.Add(func() {
		if n := h.queue.Dropped(); n > 0 {
			lost := slog.NewRecord(sched.Now(), slog.LevelWarn, h.lost, 0)
			lost.Add("records", n)
			defer h.hand(lost)
		}
		h.hand(r)
	})
	return nil
}

// hand hands r over.
func (h *Handler) hand(r slog.Record) {
	guard.Call(func() {
		if h.to.Enabled(context.Background(), r.Level) {
			_ = h.to.Handle(context.Background(), r)
		}
	}, h.panicked)
}

// Wait waits until every record has been handed over, at most for d, and reports whether it has.
func (h *Handler) Wait(d time.Duration) (taken bool) {
	for end := sched.Now().Add(d); ; sched.Pause(time.Millisecond, nil) {
		if taken = h.queue.Idle(); taken || sched.Since(end) >= 0 {
			return taken
		}
	}
}
