package purgatory

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

// Each event has its own ten records a second.
func TestRecordsOfOneEventSuppressNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := newManual(t, WithLogger(slog.New(log)))
		for range 30 {
			_, err := p.TryCompleteElseWatch(&panics{}, time.Second, "a")
			require.NoError(t, err)
		}
		assert.Len(t, log.find(EventPanic), 10)
		require.NoError(t, p.Close())
		require.Len(t, log.find(EventClosed), 1)
		assert.NotContains(t, log.find(EventClosed)[0], "suppressed")
	})
}

// Ten records of an event are logged in a second. The first record of a later second says how many
// were left out, and no other record does.
func TestWhatWasSuppressedIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := newManual(t, WithLogger(slog.New(log)))
		panicked := func(n int) (suppressed []any) { // 2n panics: each operation is tried twice
			before := len(log.find(EventPanic))
			for range n {
				_, err := p.TryCompleteElseWatch(&panics{}, time.Second, "a")
				require.NoError(t, err)
			}
			for _, r := range log.find(EventPanic)[before:] {
				suppressed = append(suppressed, r["suppressed"])
			}
			return suppressed
		}
		assert.Equal(t, make([]any, 10), panicked(8))
		time.Sleep(900 * time.Millisecond)
		assert.Empty(t, panicked(1))
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, append([]any{int64(8)}, make([]any, 9)...), panicked(6))
		time.Sleep(time.Second)
		assert.Equal(t, []any{int64(2), nil}, panicked(1))
		time.Sleep(time.Second)
		assert.Equal(t, make([]any, 2), panicked(1))
		assert.EqualValues(t, 34, p.Stats().Panics, "those that were left out count, too")
	})
}

// failing is a slog.Handler that panics.
type failing struct{ records }

func (*failing) Handle(context.Context, slog.Record) error { panic("of the logger's") }

// A panic that the logger cannot be told of goes to slog's default logger, unless a handler has it.
// One that the logger was told of does not.
func TestAPanicThatTheLoggerFailsToLogIsNotLost(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	for name, c := range map[string]struct {
		logger  slog.Handler
		handled bool
		lost    int
	}{
		"a failing logger":                {&failing{}, false, 2},
		"a failing logger and a handler":  {&failing{}, true, 0},
		"a logger":                        {&records{}, false, 0},
		"a logger and a handler":          {&records{}, true, 0},
		"a logger that logs none of them": {slog.DiscardHandler, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			standard := &records{}
			slog.SetDefault(slog.New(standard))
			opts := []Option{WithLogger(slog.New(c.logger))}
			handled := 0
			if c.handled {
				opts = append(opts, WithPanicHandler(func(any, []byte) { handled++ }))
			}
			p := newManual(t, opts...)
			_, err := p.TryCompleteElseWatch(&panics{}, time.Second, "a")
			require.NoError(t, err)
			got := standard.find(EventPanic)
			assert.Len(t, got, c.lost)
			for _, r := range got {
				assert.Equal(t, "no", r["panic"])
			}
			assert.Equal(t, map[bool]int{true: 2}[c.handled], handled)
		})
	}
}

// A stall is counted and logged; a turn that is late by less is none.
func TestAStallIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := newManual(t, WithLogger(slog.New(log)))
		turn := p.reap()
		for i, gap := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 401 * time.Millisecond, time.Minute, 0} {
			time.Sleep(gap)
			turn()
			synctest.Wait()
			want := min(max(i-1, 0), 2)
			assert.EqualValues(t, want, p.Stats().ReaperStalls, "after %v", gap)
			assert.Len(t, log.find(EventStalled), want)
		}
	})
}

// While Shutdown waits, no operation is tried or accepted, and it is logged once that Shutdown waits.
func TestShutdownRefusesFromItsBeginningOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &records{}
		p := newManual(t, WithLogger(slog.New(log)))
		waits := submit(t, p, time.Hour, "a")
		done := make(chan error)
		go func() { done <- p.Shutdown(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { done <- p.Shutdown(ctx) }()
		synctest.Wait()
		tried := &counted{}
		_, err := p.TryCompleteElseWatch(tried, time.Hour, "a")
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, p.Await(ctx, time.Hour, tried.TryComplete, "a"), ErrClosed)
		assert.Zero(t, tried.tries)
		assert.Len(t, log.find(EventShutdown), 1)
		assert.Equal(t, operation.Pending, waits.Outcome())
		require.True(t, p.ForceComplete(waits))
		assert.NoError(t, <-done)
		assert.NoError(t, <-done)
	})
}

// counted counts its tries.
type counted struct {
	operation.DelayedOperation
	tries int
}

func (c *counted) TryComplete() bool { c.tries++; return true }
func (*counted) OnComplete()         {}
func (*counted) OnExpiration()       {}

// A registration that began before Shutdown, and is not accepted yet, is refused: Shutdown would not
// wait for its condition.
func TestARegistrationDuringWhichShutdownBeginsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newManual(t)
		waits := submit(t, p, time.Hour, "a")
		done := make(chan error)
		o := &starter{start: func() {
			go func() { done <- p.Shutdown(t.Context()) }()
			synctest.Wait()
		}}
		completed, err := p.TryCompleteElseWatch(o, time.Hour, "a")
		assert.False(t, completed)
		require.ErrorIs(t, err, ErrClosed)
		assert.Equal(t, 1, p.NumDelayed())
		require.True(t, p.ForceComplete(waits))
		assert.NoError(t, <-done)
		assert.Equal(t, operation.Pending, o.Outcome())
	})
}

// starter starts something in its first try.
type starter struct {
	counted
	start func()
}

func (s *starter) TryComplete() bool {
	if s.tries++; s.tries == 1 {
		s.start()
	}
	return false
}
