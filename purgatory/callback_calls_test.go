package purgatory_test

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// curious is a logger's handler that calls the purgatory that logs.
type curious struct {
	call  *func()
	calls *atomic.Int64
}

func (curious) Enabled(context.Context, slog.Level) bool { return true }
func (h curious) Handle(context.Context, slog.Record) error {
	h.calls.Add(1)
	(*h.call)()
	return nil
}
func (h curious) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h curious) WithGroup(string) slog.Handler      { return h }

// A logger and a panic handler may call any method that does not block, whatever is
// being logged: no lock is held, under which one of these would wait.
func TestLoggersAndHandlersMayCallBack(t *testing.T) {
	var told, logged atomic.Int64
	call := func() {}
	within := 0
	p := open[string](t,
		purgatory.WithLogger(slog.New(curious{&call, &logged})),
		purgatory.WithPanicHandler(func(any, []byte) { told.Add(1); call() }),
		purgatory.WithSlowCallback(1), purgatory.WithHistograms(), purgatory.WithKeyStats(8),
		purgatory.WithReapInterval(10*time.Millisecond))
	var busy atomic.Bool
	call = func() {
		if busy.Swap(true) { // what it calls may log, and call again
			return
		}
		defer busy.Store(false)
		within++
		_, _, _, _ = p.Stats(), p.Inspect(10, 10), p.NumDelayed(), p.Watched()
		o := &op{}
		_, _ = p.TryCompleteElseWatch(o, hour, "other")
		p.Extend(o, hour)
		p.CheckAndComplete("other")
		p.Cancel(o, nil)
	}
	soon(t, "what is logged waits for what is called from the logger", func() {
		var met atomic.Bool
		slow := func() { time.Sleep(time.Microsecond) }
		var all []*op
		for i := range 20 {
			o := until(&met)
			o.complete = slow
			switch i % 4 {
			case 1:
				o.complete = func() { panic("of the test") }
			case 2:
				o.try = func() bool { slow(); return met.Load() }
			}
			all = append(all, o)
			submit(t, p, o, hour, "a", "b")
		}
		met.Store(true)
		p.Signal("a")
		eventually(t, func() bool {
			return told.Load() >= 5 && !slices.ContainsFunc(all, func(o *op) bool { return o.completed.Load() == 0 })
		}, "the check by a worker")
		submit(t, p, &op{complete: slow}, hour, "a")
		require.NoError(t, p.Close())
		require.NoError(t, p.Shutdown(t.Context()))
	})
	assert.Positive(t, logged.Load())
	assert.Positive(t, within)
}
