package signals_test

import (
	"context"
	"iter"
	"math"
	"runtime"
	"sync/atomic"
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
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			r, err := signals.To[string](nobody{}, signals.WithAudit(math.MaxInt64))
			require.NoError(t, err)
			stop := runIn(t, r, script())
			time.Sleep(100 * 365 * 24 * time.Hour)
			assert.Zero(t, r.Stats().Audits)
			stop()
		})
	}
}

func TestGoexitInABulkReadCausesAnotherRecheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		r, err := signals.To[string](one{}, signals.WithLag(0), signals.WithAudit(0), signals.WithResync(func(context.Context, []string) error {
			if reads++; reads == 1 {
				runtime.Goexit()
			}
			return nil
		}))
		require.NoError(t, err)
		stop := runIn(t, r, script(stands))
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, r.Stats().Rechecks, "the re-check that the Goexit has cut off is made")
		stop()
	})
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
		for r.Stats().Rechecks == 0 && time.Since(began) < time.Hour {
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

// An engine that may lose hints without the source's noticing asks for shorter intervals.
func TestASourceMayAskForShorterAudits(t *testing.T) {
	for _, c := range []struct {
		options []signals.Option
		audits  int64 // in an hour
	}{{nil, 240}, {[]signals.Option{signals.WithAudit(time.Minute)}, 60}} {
		synctest.Test(t, func(t *testing.T) {
			r, err := signals.To[string](crowd{n: 100_000}, append(c.options, signals.WithLag(0))...)
			require.NoError(t, err)
			stop := runIn(t, r, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
				sink.Subscribed(signals.Subscription{
					Every: time.Second, Limit: time.Minute, Audit: 15 * time.Second,
					Probe: func(_ context.Context, n uint64) error { sink.Heard(n); return nil },
				})
				<-ctx.Done()
				return context.Cause(ctx)
			}))
			time.Sleep(time.Hour)
			assert.InDelta(t, c.audits, r.Stats().Audits, 10)
			stop()
		})
	}
}

// The function fails for a minute. What follows a re-check that succeeds is as it was before.
func TestAReCheckThatSucceedsEndsTheRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		r, err := signals.To[string](one{}, signals.WithBackoff(time.Second, time.Minute), signals.WithLag(0), signals.WithAudit(0), signals.WithResync(func(context.Context, []string) error {
			if fails.Load() {
				return errBroken
			}
			return nil
		}))
		require.NoError(t, err)
		fails.Store(true)
		stop := runIn(t, r, script(stands))
		time.Sleep(time.Minute)
		fails.Store(false)
		r.Missed(errBroken)
		synctest.Wait()
		reads := r.Stats().BulkReads
		assert.EqualValues(t, 1, r.Stats().Rechecks)
		time.Sleep(10 * time.Minute)
		assert.EqualValues(t, 1, r.Stats().Rechecks, "no retry is left")

		fails.Store(true)
		r.Missed(errBroken)
		synctest.Wait()
		assert.Equal(t, reads+1, r.Stats().BulkReads)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, reads+2, r.Stats().BulkReads, "after the first pause, not after the last one")
		stop()
	})
}

// An error that names no key says that all were read.
func TestAnErrorWithoutKeysCausesNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := signals.To[string](one{}, signals.WithLag(0), signals.WithAudit(0), signals.WithResync(func(context.Context, []string) error {
			return signals.UnreadError[string]{}
		}))
		require.NoError(t, err)
		stop := runIn(t, r, script(stands))
		time.Sleep(time.Hour)
		s := r.Stats()
		assert.Equal(t, []int64{1, 1, 1}, []int64{s.BulkReads, s.Failures, s.Rechecks})
		stop()
	})
}

// visited counts the visits to the keys of a crowd.
type visited struct {
	crowd
	visits *atomic.Int64
	inside *atomic.Bool
}

func (v visited) Keys() iter.Seq[string] {
	return func(y func(string) bool) {
		v.visits.Add(1)
		v.inside.Store(true)
		v.crowd.Keys()(y)
		v.inside.Store(false)
	}
}

// No re-check begins after the end of Run's context, and none goes on after Run has returned.
func TestReChecksEndWithRun(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // it ends then
		gap   bool          // there was a second gap, during the rest after the first re-check
	}{
		"during a re-check":            {after: 5 * time.Millisecond},
		"during the rest":              {after: 20 * time.Millisecond},
		"during the rest, after a gap": {after: 20 * time.Millisecond, gap: true},
		"when nothing is due":          {after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := visited{crowd{n: 10_000}, new(atomic.Int64), new(atomic.Bool)} // 10 ms
				r, err := signals.To[string](v, signals.WithLag(0), signals.WithAudit(0))
				require.NoError(t, err)
				stop := runIn(t, r, script(stands))
				time.Sleep(c.after)
				if c.gap {
					r.Missed(errBroken)
				}
				stop()
				assert.False(t, v.inside.Load())
				assert.EqualValues(t, 1, v.visits.Load())
			})
		})
	}
}

func TestTheShortestPausesAndIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := signals.To[string](one{}, signals.WithBackoff(1, 1), signals.WithAudit(1), signals.WithLag(1))
		require.NoError(t, err)
		stop := runIn(t, r, script(breaks, breaks, stands))
		time.Sleep(time.Microsecond)
		s := r.Stats()
		assert.True(t, s.Standing)
		assert.EqualValues(t, 2, s.Ends)
		assert.Greater(t, s.Audits, int64(100))
		stop()
	})
}
