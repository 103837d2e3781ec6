package purgatory_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// unwinding is a logger's handler that calls unwind for the records of one event.
type unwinding struct {
	event  string
	unwind func()
}

func (unwinding) Enabled(context.Context, slog.Level) bool { return true }
func (h unwinding) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.event {
		h.unwind()
	}
	return nil
}
func (h unwinding) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h unwinding) WithGroup(string) slog.Handler      { return h }

// The logger is told of a slow TryComplete after that has returned true. If the logger calls
// Goexit, the verdict must stay.
func TestALoggerThatCallsGoexitUndoesNoVerdict(t *testing.T) {
	met := false
	p := onManualClock[string](t, purgatory.WithSlowCallback(1),
		purgatory.WithLogger(slog.New(unwinding{purgatory.EventSlow, runtime.Goexit})))
	o := &op{try: func() bool { time.Sleep(time.Microsecond); return met }}
	submit(t, p, o, hour, "a")
	met = true
	inBackground(func() { p.CheckAndComplete("a") })()
	assert.EqualValues(t, 1, o.completed.Load(), "its condition is met, and its TryComplete has said so")
}

// What the reaper finds is logged by another goroutine: a logger that blocks, as one does whose pipe
// is full, must not stop the clock. For [purgatory.EventStalled] see TestALoggerThatBlocksStopsNoSweep.
func TestALoggerThatBlocksStopsNoTimeout(t *testing.T) {
	for _, event := range []string{purgatory.EventDue, purgatory.EventStuck} {
		t.Run(event, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told, release := make(chan struct{}, 1), make(chan struct{})
				p := open[string](t, purgatory.WithExpiryWorkers(1), purgatory.WithSlowCallback(time.Second),
					purgatory.WithLogger(slog.New(unwinding{event, func() {
						select {
						case told <- struct{}{}:
						default:
						}
						<-release
					}})))
				leave := make(chan struct{})
				for range 2 { // one blocks the worker, the other waits for it
					submit(t, p, &op{complete: func() { <-leave }}, time.Millisecond, "a")
				}
				<-told
				close(leave)
				synctest.Wait()
				begun := time.Now()
				err := p.Await(t.Context(), 50*time.Millisecond, func() bool { return false }, "b")
				assert.ErrorIs(t, err, purgatory.ErrExpired)
				assert.LessOrEqual(t, time.Since(begun), 51*time.Millisecond)
				close(release)
			})
		})
	}
}

// asking is a logger's handler whose Enabled unwinds.
type asking struct {
	slog.Handler
	armed *atomic.Bool
}

func (h asking) Enabled(context.Context, slog.Level) bool {
	if h.armed.Swap(false) {
		runtime.Goexit()
	}
	return false
}
func (h asking) WithAttrs([]slog.Attr) slog.Handler { return h }

// Close asks the logger before it closes the first shard. If that unwinds, a second Close
// must do what the first has not.
func TestALoggerThatUnwindsWhenCloseBeginsLeavesNothingPending(t *testing.T) {
	var armed atomic.Bool
	p := onManualClock[string](t, purgatory.WithLogger(slog.New(asking{slog.DiscardHandler, &armed})))
	o := submitted(t, p, "a")
	armed.Store(true)
	inBackground(func() { _ = p.Close() })()
	_ = p.Close()
	ended(t, o, operation.Closed)
}
