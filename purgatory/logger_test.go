package purgatory_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
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

// leaveStale ends operations on two keys while other goroutines hold the shards' locks,
// until an ended operation has left a watch to the purge.
func leaveStale(t *testing.T, p *stringPurgatory) {
	t.Helper()
	stop := make(chan struct{})
	var hammering sync.WaitGroup
	for range 4 {
		hammering.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					p.NumKeys()
				}
			}
		})
	}
	eventually(t, func() bool {
		for range 100 {
			p.ForceComplete(submitted(t, p, "a", "b", "c", "d", "e", "f"))
		}
		return p.Stats().Stale > 0
	}, "a watch is left to the purge")
	close(stop)
	hammering.Wait()
}

// After Close, the goroutine that ends operations purges before it runs their callbacks.
// The purge logs: the logger may unwind.
func TestALoggerThatUnwindsInAPurgeLosesNoCallback(t *testing.T) {
	for name, unwind := range map[string]func(){"panic": func() { panic("of the logger's") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var told panics
			p := onManualClock[string](t, told.option(), purgatory.WithWatcherShards(16),
				purgatory.WithLogger(slog.New(unwinding{purgatory.EventPurged, unwind})))
			leaveStale(t, p)
			all := make([]*op, 50)
			for i := range all {
				all[i] = submitted(t, p, string(rune('A'+i)))
			}
			inBackground(func() {
				defer func() { _ = recover() }()
				_ = p.Close()
			})()
			for _, o := range all {
				assert.EqualValues(t, 1, o.completed.Load(), "OnComplete of an operation that has ended as %v", o.Outcome())
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			assert.NoError(t, p.Shutdown(ctx))
		})
	}
}

// A logger that unwinds in Close's purge leaves goroutines behind.
func TestALoggerThatUnwindsInClosesPurgeStopsTheReaper(t *testing.T) {
	p := open[string](t, purgatory.WithWatcherShards(16), purgatory.WithReapInterval(hour),
		purgatory.WithLogger(slog.New(unwinding{purgatory.EventPurged, runtime.Goexit})))
	leaveStale(t, p)
	inBackground(func() { _ = p.Close() })()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	assert.NoError(t, p.Shutdown(ctx))
}

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

// A logger that panics when it is told of a stall must not end the reaper's sweeps.
func TestALoggerThatPanicsOfAStallStopsNoSweep(t *testing.T) {
	var told panics
	var slow, refuse atomic.Bool
	p := open[string](t, told.option(), purgatory.WithReapInterval(time.Millisecond),
		purgatory.WithLogger(slog.New(unwinding{purgatory.EventStalled, func() { panic("of the logger's") }})),
		purgatory.WithExecutor(func(run func()) error {
			if slow.Swap(false) {
				time.Sleep(400 * time.Millisecond) // on the reaper's goroutine
			}
			if refuse.Swap(false) {
				return errors.New("full")
			}
			go run()
			return nil
		}))
	slow.Store(true)
	submit(t, p, &op{}, 5*time.Millisecond, "b")
	eventually(t, func() bool { return told.n.Load() > 0 }, "the reaper has told of the stall")
	var met atomic.Bool
	o := until(&met)
	submit(t, p, o, hour, "a")
	met.Store(true)
	refuse.Store(true)
	p.Signal("a")
	eventually(t, func() bool { return o.completed.Load() == 1 }, "the reaper offers the refused check again")
}
