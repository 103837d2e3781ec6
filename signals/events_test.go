package signals_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

// moody are waiters whose method panics once.
type moody struct {
	signals.Waiters[string]
	panicked atomic.Bool
}

func (m *moody) SignalUpTo(key string, position int64) bool {
	if !m.panicked.Swap(true) {
		panic("of the user's")
	}
	return m.Waiters.SignalUpTo(key, position)
}

// A method of the user's waiters that panics where hints are said again is named in the log, with its stack.
func TestAPanicOfTheWaitersIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		var log bytes.Buffer
		r, err := signals.To(&moody{Waiters: p}, signals.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = p.Await(ctx, time.Hour, func() bool { return false }, "a") }()
		synctest.Wait()
		stop := runIn(t, r, script(stands))
		time.Sleep(time.Hour)
		stop()
		cancel()
		synctest.Wait()
		require.NoError(t, p.Close())
		assert.Contains(t, log.String(), `level=WARN msg=signals.resync.failed signals=signals error="panic: of the user's`)
		assert.Contains(t, log.String(), "SignalUpTo")
		assert.Positive(t, r.Stats().Rechecks, "it goes on after a pause")
	})
}

// Each event is a record with its documented level and attributes, and docs/operations.md has a
// line about it.
func TestEachEventIsLoggedAsDocumented(t *testing.T) {
	events := map[string]string{
		signals.EventStanding:  "level=INFO msg=signals.standing signals=fetches\n",
		signals.EventGap:       `level=WARN msg=signals.gap signals=fetches cause="signals: subscribed" silent=`,
		signals.EventEnded:     "level=WARN msg=signals.source.ended signals=fetches error=broken pause=",
		signals.EventUnread:    "level=WARN msg=signals.resync.failed signals=fetches error=broken keys=1 pause=",
		signals.EventRechecked: "level=DEBUG msg=signals.rechecked signals=fetches keys=1 reads=1 elapsed=",
		signals.EventFinal:     "level=ERROR msg=signals.source.final signals=fetches error=\"broken: signals: the source cannot be run again\"",
	}
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		var log bytes.Buffer
		failed := false
		r, err := signals.To(p, signals.WithName("fetches"), signals.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
			signals.WithResync(func(context.Context, []string) error {
				if failed {
					return nil
				}
				failed = true
				return errBroken
			}))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = p.Await(ctx, time.Hour, func() bool { return false }, "a") }()
		synctest.Wait()
		stop := runIn(t, r, script(stands, breaks, stands))
		time.Sleep(time.Minute)
		stop()
		final := fmt.Errorf("broken: %w", signals.ErrFinal)
		soon, end := context.WithTimeout(ctx, time.Hour)
		defer end()
		assert.ErrorIs(t, r.Run(soon, script(func(signals.Sink[string]) error { return final })), signals.ErrFinal)
		cancel()
		for event, record := range events {
			assert.Contains(t, log.String(), record, event)
		}
		before, _, _ := strings.Cut(log.String(), signals.EventGap)
		assert.Contains(t, before, signals.EventStanding, "the first subscription is no gap")
		require.NoError(t, p.Close())
	})
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	for event, record := range events {
		for line := range strings.Lines(string(page)) {
			rest, found := strings.CutPrefix(line, "| `"+event+"` | ")
			if !found {
				continue
			}
			level, _, _ := strings.Cut(strings.TrimPrefix(record, "level="), " ")
			assert.True(t, strings.HasPrefix(rest, strings.ToLower(level)+" |"), line)
			record = ""
		}
		assert.Empty(t, record, "docs/operations.md has no line about %s with its level", event)
	}
}

// asking is a handler that asks for the statistics of the runner that logs.
type asking struct {
	slog.Handler
	r     atomic.Pointer[signals.Runner[string]]
	asked atomic.Int64
}

func (a *asking) Handle(context.Context, slog.Record) error {
	_ = a.r.Load().Stats()
	a.asked.Add(1)
	return nil
}

func (a *asking) WithAttrs([]slog.Attr) slog.Handler { return a }

func TestALoggerMayAskForTheStatistics(t *testing.T) {
	p := open(t)
	log := &asking{Handler: slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug})}
	r, err := signals.To(p, signals.WithLogger(slog.New(log)), signals.WithBackoff(time.Millisecond, time.Millisecond))
	require.NoError(t, err)
	log.r.Store(r)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	// It stands, has a gap, breaks, stands again, and cannot go on.
	final := func(signals.Sink[string]) error { return signals.ErrFinal }
	go func() { done <- r.Run(ctx, script(stands, stands, breaks, stands, final)) }()
	select {
	case err := <-done:
		require.ErrorIs(t, err, signals.ErrFinal)
	case <-time.After(15 * time.Second):
		t.Fatal("a record waits for the lock under which it is logged")
	}
	cancel()
	assert.Eventually(t, func() bool { return log.asked.Load() >= 4 }, time.Minute, time.Millisecond)
	require.NoError(t, p.Close())
}

// A sink that does not return holds up no hint, no source, no re-check, and not the end of Run (etcd 22214).
func TestALogSinkThatDoesNotReturnHoldsUpNoRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		release := make(chan struct{})
		var log bytes.Buffer
		sink := &stuckSink{slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}), release}
		resyncs := 0
		r, err := signals.To(p, signals.WithLogger(slog.New(sink)), signals.WithLag(0), signals.WithAudit(0), signals.WithSpread(0),
			signals.WithBackoff(time.Millisecond, time.Millisecond),
			signals.WithResync(func(context.Context, []string) error { resyncs++; return errBroken }))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		const gaps = 1000
		go func() {
			done <- r.Run(ctx, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
				for range gaps {
					sink.Missed(signals.ErrOverflow)
				}
				if r.Stats().Ends < 3 {
					return errBroken
				}
				<-ctx.Done()
				return ctx.Err()
			}))
		}()
		var state atomic.Bool
		answered := make(chan error, 1)
		go func() { answered <- p.Await(t.Context(), time.Hour, state.Load, "a") }()
		time.Sleep(time.Minute)
		s := r.Stats()
		assert.True(t, s.Standing)
		assert.EqualValues(t, 3, s.Ends)
		assert.EqualValues(t, 4*gaps-1, s.Gaps)
		assert.Positive(t, resyncs, "it re-checks")
		state.Store(true)
		r.Changed("a", signals.Unknown)
		require.NoError(t, <-answered)

		began := time.Now()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		assert.LessOrEqual(t, time.Since(began), time.Second, "Run ends")
		close(release)
		synctest.Wait()
		assert.Contains(t, log.String(), "level=WARN msg=signals.records.lost signals=signals records=")
		require.NoError(t, p.Close())
	})
}

// stuckSink is a handler that does not return before it is released.
type stuckSink struct {
	slog.Handler
	release chan struct{}
}

func (s *stuckSink) Handle(ctx context.Context, r slog.Record) error {
	<-s.release
	return s.Handler.Handle(ctx, r)
}

func (s *stuckSink) WithAttrs(a []slog.Attr) slog.Handler {
	return &stuckSink{s.Handler.WithAttrs(a), s.release}
}
