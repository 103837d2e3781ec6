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
		r, err := signals.To[string](one{}, signals.WithBackoff(time.Second, time.Minute), signals.WithLag(0), signals.WithAudit(0), signals.WithResync(func(context.Context, []string) error {
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
		assert.GreaterOrEqual(t, time.Since(began), 15*time.Second, "pauses of 1, 2, 4, 8 and 16 s, each shortened by one half at most")
		assert.EqualValues(t, 5, r.Stats().Failures)
		stop()
	})
}

// one is a purgatory in which something waits for "a".
type one struct{ nobody }

func (one) Keys() iter.Seq[string] { return func(y func(string) bool) { y("a") } }

// crowd is a purgatory with n keys, whose signals take a millisecond for each thousand.
type crowd struct {
	nobody
	n int
}

func (c crowd) Keys() iter.Seq[string] {
	return func(y func(string) bool) {
		for i := range c.n {
			if !y("key") {
				return
			}
			if i%1000 == 999 {
				time.Sleep(time.Millisecond)
			}
		}
	}
}

// Gaps without end leave nine tenths of the time to the hints; a gap alone is re-checked at once.
func TestReChecksThatFollowEachOtherLeaveTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := signals.To[string](crowd{n: 10_000}, signals.WithLag(0), signals.WithAudit(0)) // 10 ms
		require.NoError(t, err)
		stop := runIn(t, r, script())
		r.Missed(errBroken)
		time.Sleep(11 * time.Millisecond)
		assert.EqualValues(t, 1, r.Stats().Rechecks)
		for range 10_000 {
			r.Missed(errBroken)
			time.Sleep(time.Millisecond)
		}
		assert.InDelta(t, 100, r.Stats().Rechecks, 2, "in ten seconds")
		stop()
	})
}

// An audit of more keys comes at longer intervals.
func TestAuditsAreOnByDefaultAndKeepTheirCostsLow(t *testing.T) {
	for keys, audits := range map[int][2]int64{0: {600, 800}, 5000: {600, 800}, 20_000: {150, 190}, 100_000: {50, 70}} {
		synctest.Test(t, func(t *testing.T) {
			r, err := signals.To[string](crowd{n: keys}, signals.WithLag(0))
			require.NoError(t, err)
			stop := runIn(t, r, script())
			time.Sleep(time.Hour)
			assert.GreaterOrEqual(t, r.Stats().Audits, audits[0], keys)
			assert.LessOrEqual(t, r.Stats().Audits, audits[1], keys)
			stop()
		})
	}
}
