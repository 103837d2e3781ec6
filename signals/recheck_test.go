package signals_test

import (
	"context"
	"iter"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/signals"
)

// nobody is a purgatory in which nothing waits.
type nobody struct{}

func (nobody) SignalUpTo(string, int64) bool { return false }
func (nobody) SignalAll()                    {}
func (nobody) Keys() iter.Seq[string]        { return func(func(string) bool) {} }

func TestTheLongestAuditIntervalNeverPasses(t *testing.T) {
	var audits int64
	for range 30 {
		r, err := signals.To[string](nobody{}, signals.WithAudit(math.MaxInt64))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_ = r.Run(ctx, signals.SourceFunc[string](func(ctx context.Context, _ signals.Sink[string]) error { <-ctx.Done(); return ctx.Err() }))
		cancel()
		audits += r.Stats().Audits
	}
	assert.Zero(t, audits)
}

func TestGoexitInABulkReadCausesAnotherRecheck(t *testing.T) {
	reads := 0
	r, err := signals.To[string](one{}, signals.WithResync(func(context.Context, []string) error {
		if reads++; reads == 1 {
			runtime.Goexit()
		}
		return nil
	}))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_ = r.Run(ctx, signals.SourceFunc[string](func(ctx context.Context, s signals.Sink[string]) error {
		s.Missed(signals.ErrSubscribed)
		for ctx.Err() == nil && r.Stats().Rechecks == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		return ctx.Err()
	}))
	assert.Positive(t, r.Stats().Rechecks, "the re-check that the Goexit has cut off is made")
}

// Nothing but a pause keeps such a function from using up a processor.
func TestTheRecheckPausesAfterAGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, reads := time.Now(), 0
		r, err := signals.To[string](one{}, signals.WithBackoff(time.Second, time.Minute), signals.WithResync(func(context.Context, []string) error {
			if reads++; reads <= 5 {
				runtime.Goexit()
			}
			return nil
		}))
		require.NoError(t, err)
		stop := runIn(t, r, script(stands))
		for r.Stats().Rechecks == 0 {
			time.Sleep(time.Millisecond)
		}
		assert.GreaterOrEqual(t, time.Since(began), 5*time.Second)
		assert.EqualValues(t, 5, r.Stats().Failures)
		stop()
	})
}

// one is a purgatory in which something waits for "a".
type one struct{ nobody }

func (one) Keys() iter.Seq[string] { return func(y func(string) bool) { y("a") } }
