// Package logging hands records to a handler that may block, and holds nobody up who logs.
package logging

import (
	"context"
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
)

// most is how many records wait. More are counted, and the handler gets the count when it has taken those.
const most = 256

// Handler is a [slog.Handler] that never blocks, whatever the one behind it does. One goroutine hands the records
// over, in order, if their level is enabled there; it exists while there are records. A Handler is safe for concurrent
// use, and shares its goroutine with those that WithAttrs and WithGroup return.
type Handler struct {
	to slog.Handler
	*queue
}

type queue struct {
	lost     string
	panicked guard.Handler
	mu       struct { // lock level 8, taken with no other held
		sched.Mutex
		waiting []record // nil: there is no goroutine
		lost    int      // records
	}
}

type record struct {
	slog.Record
	to slog.Handler
}

// New returns a Handler in front of to. The message lost tells it how many records were lost, in the attribute
// "records". A panic in to loses its record, and goes to panicked on the goroutine that hands over.
func New(to slog.Handler, lost string, panicked guard.Handler) *Handler {
	return &Handler{to, &queue{lost: lost, panicked: panicked}}
}

// Enabled reports whether records are handed over, at whatever level.
func (h *Handler) Enabled(context.Context, slog.Level) bool { return h.to != slog.DiscardHandler }

// WithAttrs calls that method of the handler behind h, and may block.
func (h *Handler) WithAttrs(a []slog.Attr) slog.Handler { return &Handler{h.to.WithAttrs(a), h.queue} }

// WithGroup calls that method of the handler behind h, and may block.
func (h *Handler) WithGroup(name string) slog.Handler { return &Handler{h.to.WithGroup(name), h.queue} }

// Handle queues r.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.waiting == nil {
		sched.Go(h.run)
	}
	if h.mu.waiting = append(h.mu.waiting, record{r.Clone(), h.to}); len(h.mu.waiting) > most {
		h.mu.waiting, h.mu.lost = h.mu.waiting[:most], h.mu.lost+1
	}
	return nil
}

// Wait waits until every record has been handed over, at most for d, and reports whether it has.
func (h *Handler) Wait(d time.Duration) (taken bool) {
	for end := sched.Now().Add(d); ; sched.Pause(time.Millisecond, nil) {
		h.mu.Lock()
		taken = h.mu.waiting == nil
		h.mu.Unlock()
		if taken || sched.Since(end) >= 0 {
			return taken
		}
	}
}

// run hands over what waits, and then how many were lost.
func (q *queue) run() {
	for r := (record{}); q.next(&r); {
		guard.Apart(func() { // it may call runtime.Goexit
			if r.to.Enabled(context.Background(), r.Level) {
				_ = r.to.Handle(context.Background(), r.Record)
			}
		}, q.panicked)
	}
}

// next takes the next record. If there is none, it says so to Handle and to run under one lock.
func (q *queue) next(r *record) (found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.mu.waiting) > 0:
		*r, q.mu.waiting[0] = q.mu.waiting[0], record{}
		q.mu.waiting = q.mu.waiting[1:]
	case q.mu.lost > 0:
		r.Record = slog.NewRecord(sched.Now(), slog.LevelWarn, q.lost, 0)
		r.Add("records", q.mu.lost)
		q.mu.lost = 0
	default:
		q.mu.waiting = nil
	}
	return q.mu.waiting != nil
}
