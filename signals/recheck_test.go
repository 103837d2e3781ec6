package signals_test

import (
	"context"
	"iter"
	"math"
	"runtime"
	"slices"
	"sync"
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

// A run that ends during the pause of WithSpread makes no re-check.
func TestARunThatEndsInThePauseOfAGapChecksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		r, err := signals.To(p, signals.WithSpread(math.MaxInt64))
		require.NoError(t, err)
		tries := 0
		w, err := p.StartWait(time.Hour, func() bool { tries++; return false }, "a")
		require.NoError(t, err)
		stop := runIn(t, r, script(stands))
		synctest.Wait()
		before := tries
		stop()
		synctest.Wait()
		assert.Equal(t, []int64{int64(before), 0}, []int64{int64(tries), r.Stats().Rechecks})
		w.Stop()
		require.NoError(t, p.Close())
	})
}

// The pause of WithSpread puts off one re-check, for all calls of Missed that come before it, also if an audit, which is
// due then, has begun the pause.
func TestAPauseBeforeARecheckIsForAllThatCome(t *testing.T) {
	for name, options := range map[string][]signals.Option{"without audits": nil, "with audits": {signals.WithAudit(2 * time.Minute)}} {
		for range 10 {
			synctest.Test(t, func(t *testing.T) {
				r := alone(t, append([]signals.Option{signals.WithSpread(10 * time.Second)}, options...)...)
				stop := runIn(t, r, script(stands))
				time.Sleep(30 * time.Second)
				synctest.Wait()
				before := r.Stats().Rechecks
				r.Missed(errBroken)
				for range 10 {
					time.Sleep(time.Millisecond)
					if r.Stats().Rechecks > before {
						break // the pause was short
					}
					r.Missed(errBroken)
				}
				synctest.Wait()
				calls := r.Stats().Rechecks - before // 0, or 1 if a call came later
				time.Sleep(20 * time.Second)
				assert.LessOrEqual(t, r.Stats().Rechecks-before, calls+1, name)
				assert.Greater(t, r.Stats().Rechecks, before, name)

				since := r.Stats()
				time.Sleep(20 * time.Minute)
				s := r.Stats()
				assert.Equal(t, s.Audits-since.Audits, s.Rechecks-since.Rechecks, "no audit is taken for another one")
				assert.Equal(t, options != nil, s.Audits > 0, name)
				stop()
			})
		}
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
		r, err := signals.To[string](crowd{n: 10_000}, signals.WithLag(0), signals.WithAudit(0), signals.WithSpread(0)) // 10 ms
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

// Forty processes have a gap at the same time. They do not read at the same time.
func TestProcessesReCheckOneAfterTheOther(t *testing.T) {
	const processes = 40
	for name, c := range map[string]struct {
		keys    int
		options []signals.Option
		longest time.Duration
	}{
		"few keys":   {keys: 999},
		"many keys":  {keys: 20_000, longest: 2 * time.Second},
		"more":       {keys: 60_000, longest: 5 * time.Second},
		"an option":  {keys: 1, options: []signals.Option{signals.WithSpread(time.Minute)}, longest: time.Minute},
		"no spread":  {keys: 20_000, options: []signals.Option{signals.WithSpread(0)}},
		"with a lag": {keys: 20_000, options: []signals.Option{signals.WithLag(time.Second)}, longest: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var mu sync.Mutex
				var after []time.Duration // of the first signal of each process
				for range processes {
					r, err := signals.To[string](&herd{n: c.keys, signalled: func() {
						mu.Lock()
						defer mu.Unlock()
						after = append(after, time.Since(began))
					}}, append([]signals.Option{signals.WithLag(0), signals.WithAudit(0)}, c.options...)...)
					require.NoError(t, err)
					defer runIn(t, r, script(stands))()
				}
				time.Sleep(2 * time.Minute)
				mu.Lock()
				defer mu.Unlock()
				require.Len(t, after, processes)
				slices.Sort(after)
				assert.LessOrEqual(t, after[processes-1], c.longest)
				if c.longest > 0 {
					assert.Less(t, after[0], c.longest/4)
					assert.Greater(t, after[processes-1], 3*c.longest/4)
				}
			})
		})
	}
}

// herd is a purgatory with n keys that says when it is signalled first.
type herd struct {
	n         int
	signalled func()
	once      sync.Once
}

func (h *herd) SignalUpTo(string, int64) bool { h.once.Do(h.signalled); return true }

func (h *herd) Keys() iter.Seq[string] {
	return func(y func(string) bool) {
		for i := 0; i < h.n && y("key"); i++ {
		}
	}
}

// An audit of more keys comes at longer intervals.
func TestAuditsAreOnByDefaultAndKeepTheirCostsLow(t *testing.T) {
	for keys, audits := range map[int][2]int64{0: {850, 1100}, 5000: {850, 1100}, 20_000: {210, 280}, 100_000: {70, 95}} {
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
	}{{nil, 320}, {[]signals.Option{signals.WithAudit(time.Minute)}, 80}} {
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
			assert.InEpsilon(t, c.audits, r.Stats().Audits, 0.15)
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
				r, err := signals.To[string](v, signals.WithLag(0), signals.WithAudit(0), signals.WithSpread(0))
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
