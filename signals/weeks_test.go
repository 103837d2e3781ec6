package signals_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/queue"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watermark"
)

// counted counts records by their message.
type counted struct {
	slog.Handler
	records map[string]*atomic.Int64
}

func (c counted) Handle(_ context.Context, r slog.Record) error {
	if n := c.records[r.Message]; n != nil {
		n.Add(1)
	}
	return nil
}

func (c counted) WithAttrs([]slog.Attr) slog.Handler { return c }

func (counted) Enabled(context.Context, slog.Level) bool { return true }

// Three weeks: a source has a hundred gaps, two thousand peers come, wait under keys and tenants of their own and go, and more is
// asked for than is logged in a second. The last hour is as the first: the same back-off, the same records, every key is
// sampled, and nothing is left of those who have gone.
func TestThreeWeeksAreAsTheFirstHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gaps, peers, period = 100, 20, 5 * time.Hour
		clock, err := timer.NewManualTimer()
		require.NoError(t, err)
		log := counted{slog.DiscardHandler, map[string]*atomic.Int64{purgatory.EventPanic: {}, signals.EventGap: {}, signals.EventEnded: {}}}
		logger := slog.New(log)
		p, err := purgatory.New[string]("weeks", purgatory.WithTimer(clock), purgatory.WithLogger(logger), purgatory.WithMaxPending(3*peers), purgatory.WithPanicHandler(func(any, []byte) {}))
		require.NoError(t, err)
		q, err := queue.New[int](queue.WithTimer(clock), queue.WithMaxWaiting(2*peers), queue.WithMaxItems(peers))
		require.NoError(t, err)
		r, err := signals.To(p, signals.WithLogger(logger), signals.WithSpread(0), signals.WithAudit(time.Hour), signals.WithLag(time.Second))
		require.NoError(t, err)
		hang := make(chan struct{}) // ends a run of the source
		var sink atomic.Value
		stop := runIn(t, r, signals.SourceFunc[string](func(ctx context.Context, s signals.Sink[string]) error {
			sink.Store(&s)
			s.Subscribed(signals.Subscription{Every: time.Minute, Limit: time.Hour, Probe: func(_ context.Context, n uint64) error { s.Heard(n); return nil }})
			select {
			case <-hang:
				return errBroken
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}))
		time.Sleep(time.Minute)
		synctest.Wait()
		goroutines := watchdog.InBubbles()
		var longest time.Duration
		for gap := range gaps {
			// Peers wait. A third is hinted, a third is hinted during the gap, in vain, and a third is late.
			var state atomic.Bool
			never := func() bool { return false }
			var waits []*purgatory.Wait[string]
			w := watermark.New(p, fmt.Sprint("log ", gap), 0)
			for peer := range peers {
				ready, timeout := state.Load, purgatory.NoTimeout
				if peer%3 == 2 {
					ready, timeout = never, time.Hour
				}
				wait, err := p.StartWait(timeout, ready, fmt.Sprint("peer ", gap*peers+peer))
				require.NoError(t, err)
				waits = append(waits, wait)
				_, err = q.Start(time.Hour, nil, queue.Place{Tenant: fmt.Sprint("peer ", gap*peers+peer), Kinds: []string{fmt.Sprint(gap)}})
				require.NoError(t, err)
			}
			reached, err := w.StartWait(int64(gap + 1))
			require.NoError(t, err)
			seen := map[string]bool{}
			for range 4000 {
				for _, o := range p.Inspect(64).Oldest {
					seen[o.Key] = true
				}
				if len(seen) >= peers {
					break
				}
			}
			assert.GreaterOrEqual(t, len(seen), peers, "samples of gap %d", gap)
			for range 13 { // more than are logged in a second
				_, _ = p.TryCompleteElseWatch(&panics{}, time.Minute, "bad")
			}
			state.Store(true)
			for peer := 0; peer < peers; peer += 3 {
				(*sink.Load().(*signals.Sink[string])).Changed(fmt.Sprint("peer ", gap*peers+peer), signals.Unknown)
			}
			hang <- struct{}{}
			broke := time.Now()
			for !r.Stats().Standing || time.Since(broke) == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			longest = max(longest, time.Since(broke))
			time.Sleep(period)
			synctest.Wait()
			w.Advance(int64(gap + 1))
			assert.NoError(t, reached.Err())
			require.NoError(t, q.Put(gap, queue.Place{Kinds: []string{fmt.Sprint(gap)}}))
			clock.AdvanceClock(period)
			for peer, wait := range waits {
				select {
				case <-wait.Done():
					assert.Equal(t, peer%3 == 2, wait.Err() != nil, "peer %d of gap %d: %v", peer, gap, wait.Err())
				default:
					t.Fatalf("peer %d of gap %d still waits", peer, gap)
				}
			}
			if s := q.Stats(); s.Waiting+s.Items+len(s.Tenants) > 0 {
				t.Fatalf("after gap %d the queue has %+v", gap, s)
			}
			s := p.Stats()
			require.Zero(t, s.Pending+s.Watched+s.Keys+s.Stale+s.Due, "after gap %d: %+v", gap, s)
			require.Zero(t, clock.Pending())
		}
		assert.LessOrEqual(t, longest, 2*time.Second, "the pause after a source that has stood is the first one")
		s := r.Stats()
		assert.Equal(t, []int64{gaps, gaps}, []int64{s.Gaps, s.Ends})
		assert.Less(t, s.Lag, 3*time.Second)
		assert.InDelta(t, gaps*period/time.Hour, s.Audits, float64(gaps*period/time.Hour), "audits every half to one hour")
		assert.GreaterOrEqual(t, s.Audits, int64(gaps*period/time.Hour))
		assert.GreaterOrEqual(t, log.records[purgatory.EventPanic].Load(), int64(10*gaps), "of 13 a second")
		assert.EqualValues(t, gaps, log.records[signals.EventGap].Load())
		assert.EqualValues(t, gaps, log.records[signals.EventEnded].Load())
		synctest.Wait()
		assert.Equal(t, goroutines, watchdog.InBubbles())
		stop()
		assert.Empty(t, q.Close(nil))
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// panics is an operation that panics when it is tried.
type panics struct{ operation.DelayedOperation }

func (*panics) TryComplete() bool { panic("odd") }
func (*panics) OnComplete()       {}
func (*panics) OnExpiration()     {}
