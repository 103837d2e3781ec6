package signals_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

var errBroken = errors.New("broken")

func open(t *testing.T) *purgatory.Purgatory[string] {
	t.Helper()
	p, err := purgatory.New[string]("test")
	require.NoError(t, err)
	return p
}

// script returns a source that runs the steps one after the other, and then waits until its
// context ends. A step's error ends the source; the next run goes on with the next step.
func script(steps ...func(signals.Sink[string]) error) signals.Source[string] {
	var mu sync.Mutex
	return signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		for {
			mu.Lock()
			if len(steps) == 0 {
				mu.Unlock()
				<-ctx.Done()
				return context.Cause(ctx)
			}
			step := steps[0]
			steps = steps[1:]
			mu.Unlock()
			if err := step(sink); err != nil {
				return err
			}
		}
	})
}

func stands(sink signals.Sink[string]) error { sink.Missed(signals.ErrSubscribed); return nil }
func breaks(signals.Sink[string]) error      { return errBroken }

// runIn runs source until stop is called.
func runIn(t *testing.T, r *signals.Runner[string], source signals.Source[string]) (stop func()) {
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, source) }()
	return func() {
		cancel(errBroken)
		assert.ErrorIs(t, <-done, errBroken, "the cause of its context")
	}
}

func TestAHintEndsAWaitAndAGapReChecksAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		r, err := signals.To(p, signals.WithLag(0), signals.WithAudit(0))
		require.NoError(t, err)
		var state atomic.Int64
		answered := make(chan string, 10)
		for _, want := range []int64{1, 2} {
			go func() {
				key := fmt.Sprint("key", want)
				err := p.Await(t.Context(), time.Hour, func() bool { return state.Load() >= want }, key)
				answered <- fmt.Sprint(key, " ", err)
			}()
		}
		synctest.Wait()
		step := make(chan func(signals.Sink[string]) error)
		next := func(sink signals.Sink[string]) error { return (<-step)(sink) }
		stop := runIn(t, r, script(next, next, next, next, next))
		step <- stands
		synctest.Wait()
		state.Store(1)
		step <- func(sink signals.Sink[string]) error {
			sink.Changed("key1", signals.Unknown)
			sink.Changed("key2", 7)
			sink.Changed("nobody", 7)
			return nil
		}
		assert.Equal(t, "key1 <nil>", <-answered)
		synctest.Wait()
		state.Store(2)
		synctest.Wait()
		assert.Empty(t, answered)
		time.Sleep(time.Minute)
		step <- breaks
		synctest.Wait()
		assert.False(t, r.Stats().Standing)
		step <- stands
		assert.Equal(t, "key2 <nil>", <-answered)
		synctest.Wait()
		s := r.Stats()
		assert.True(t, s.Running && s.Standing)
		assert.ErrorIs(t, s.Err, errBroken)
		s.Err = nil
		assert.Equal(t, signals.Stats{
			Name: "signals", Running: true, Standing: true,
			Hints: 3, Unawaited: 1, Gaps: 1, Rechecks: 2, Ends: 1, QueueUsed: -1,
		}, s)
		time.Sleep(time.Minute)
		assert.Equal(t, time.Minute, r.Stats().SinceLastWord)
		r.Changed("nobody", 8)
		assert.Zero(t, r.Stats().SinceLastWord)
		step <- func(signals.Sink[string]) error { return nil }
		stop()
		require.NoError(t, p.Close())
	})
}

func TestARunnerEndsWithItsContextInEveryState(t *testing.T) {
	for name, source := range map[string]signals.Source[string]{
		"standing": script(stands),
		"silent":   script(),
		"in a pause": signals.SourceFunc[string](func(context.Context, signals.Sink[string]) error {
			return errBroken
		}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open(t)
				r, err := signals.To(p, signals.WithBackoff(time.Hour, time.Hour), signals.WithAudit(time.Minute))
				require.NoError(t, err)
				stop := runIn(t, r, source)
				synctest.Wait()
				assert.ErrorIs(t, r.Run(t.Context(), source), signals.ErrRunning)
				stop()
				assert.False(t, r.Stats().Running)
				require.NoError(t, p.Close())
			})
		})
	}
}

func TestTheBackoffDoublesAndBeginsAnewAfterStanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		r, err := signals.To(p, signals.WithBackoff(100*time.Millisecond, time.Second))
		require.NoError(t, err)
		var mu sync.Mutex
		var starts []time.Time // the eighth is when it ended
		began := time.Now()
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(starts)
		}
		stop := runIn(t, r, signals.SourceFunc[string](func(_ context.Context, sink signals.Sink[string]) error {
			switch count() {
			case 3, 4: // it stands for a moment, which is no reason to begin anew
				sink.Missed(signals.ErrSubscribed)
				time.Sleep(time.Microsecond)
			case 7:
				sink.Missed(signals.ErrSubscribed)
				time.Sleep(2 * time.Second)
			}
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, time.Now())
			return nil
		}))
		time.Sleep(10 * time.Second)
		stop()
		require.GreaterOrEqual(t, count(), 10)
		for i, most := range []int{0, 100, 200, 400, 800, 1000, 1000, 3000, 100, 200} {
			pause := starts[i].Sub(began).Milliseconds()
			assert.LessOrEqual(t, pause, int64(most))
			assert.GreaterOrEqual(t, pause, int64(most)/2)
			began = starts[i]
		}
		assert.ErrorIs(t, r.Stats().Err, signals.ErrEnded)
		require.NoError(t, p.Close())
	})
}

// A source that has been subscribed for as long as the last pause is restarted after the first one.
func TestASourceThatStandsForThePauseBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := signals.To[string](nobody{}, signals.WithBackoff(time.Second, time.Hour))
		require.NoError(t, err)
		var ended, again time.Time
		stop := runIn(t, r, script(breaks,
			func(sink signals.Sink[string]) error {
				sink.Missed(signals.ErrSubscribed)
				time.Sleep(time.Second)
				ended = time.Now()
				return errBroken
			},
			func(signals.Sink[string]) error { again = time.Now(); return nil }))
		time.Sleep(time.Minute)
		stop()
		assert.Less(t, again.Sub(ended), time.Second)
	})
}

// queued is a source that says how full its queue is.
type queued struct {
	signals.Source[string]
	used float64
}

func (q queued) QueueUsed() float64 { return q.used }

func TestTheStatisticsSayHowFullTheQueueIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := signals.To[string](nobody{})
		require.NoError(t, err)
		assert.InDelta(t, -1, r.Stats().QueueUsed, 0)
		stop := runIn(t, r, queued{script(stands), 0.25})
		synctest.Wait()
		assert.InDelta(t, 0.25, r.Stats().QueueUsed, 0)
		stop()
		stop = runIn(t, r, script(stands))
		synctest.Wait()
		assert.InDelta(t, -1, r.Stats().QueueUsed, 0, "this source does not say")
		stop()
	})
}

func TestAnAuditSeesChangesWithoutAHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		r, err := signals.To(p, signals.WithAudit(time.Minute), signals.WithLag(0))
		require.NoError(t, err)
		bus := signalstest.NewBus[string](8)
		stop := runIn(t, r, bus.Source())
		synctest.Wait()
		began := time.Now()
		var took time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := signals.AwaitRead(t.Context(), p, time.Hour, func(ctx context.Context) (int64, bool, error) {
				v, err := bus.Read(ctx, "a")
				return v, v > 0, err
			}, "a")
			assert.NoError(t, err)
			took = time.Since(began)
		}()
		synctest.Wait()
		bus.WriteSilently("a", 1)
		<-done
		assert.LessOrEqual(t, took, 66*time.Second)
		assert.EqualValues(t, 1, r.Stats().Audits)
		assert.Zero(t, r.Stats().Gaps)
		stop()
		require.NoError(t, p.Close())
	})
}

func TestSeveralPurgatoriesGetEveryHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q := open(t), open(t)
		r, err := signals.To(signals.Several(p, q))
		require.NoError(t, err)
		var met atomic.Bool
		var wg, both sync.WaitGroup
		for _, at := range []*purgatory.Purgatory[string]{p, q} {
			both.Go(func() { assert.NoError(t, at.Await(t.Context(), time.Hour, met.Load, "both")) })
		}
		synctest.Wait()
		met.Store(true)
		r.Changed("both", 1)
		synctest.Wait()
		assert.Equal(t, []int{0, 0}, []int{p.NumDelayed(), q.NumDelayed()}, "both were signalled")
		both.Wait()
		met.Store(false)
		for i, at := range []*purgatory.Purgatory[string]{p, q, q} {
			wg.Go(func() { assert.NoError(t, at.Await(t.Context(), time.Hour, met.Load, fmt.Sprint("key", i))) })
		}
		synctest.Wait()
		assert.Equal(t, []string{"key0", "key1", "key2"}, slices.Sorted(signals.Several(p, q).Keys()))
		for range signals.Several(p, q).Keys() {
			break
		}
		met.Store(true)
		r.Changed("key2", 1)
		synctest.Wait()
		assert.Equal(t, 1, q.NumDelayed())
		r.Changed("key0", 1) // for the first of them only
		synctest.Wait()
		assert.Zero(t, p.NumDelayed())
		assert.Zero(t, r.Stats().Unawaited)
		r.Changed("nobody's", 1)
		assert.Equal(t, []int64{4, 1}, []int64{r.Stats().Hints, r.Stats().Unawaited})
		stop := runIn(t, r, script(stands))
		wg.Wait()
		stop()
		require.NoError(t, p.Close())
		require.NoError(t, q.Close())
	})
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	p := open(t)
	for name, o := range map[string]signals.Option{
		"nil":             nil,
		"audit":           signals.WithAudit(-1),
		"spread":          signals.WithSpread(-1),
		"lag":             signals.WithLag(-1),
		"lag of a day":    signals.WithLag(24 * time.Hour),
		"resync's limit":  signals.WithResyncLimit(0),
		"back-off":        signals.WithBackoff(0, time.Second),
		"back-off, order": signals.WithBackoff(time.Second, time.Millisecond),
		"logger":          signals.WithLogger(nil),
		"resync of int":   signals.WithResync(func(context.Context, []int) error { return nil }),
		"resync, nil":     signals.WithResync[string](nil),
	} {
		_, err := signals.To(p, o)
		assert.ErrorIs(t, err, signals.ErrInvalidOption, name)
	}
	var none *purgatory.Purgatory[string]
	for name, w := range map[string]signals.Waiters[string]{
		"nil": nil, "typed nil": none, "a typed nil of several": signals.Several(p, none), "a part of a typed nil": signals.Part(none, even),
		"a part without keys": signals.Part(p, nil),
	} {
		_, err := signals.To(w)
		assert.ErrorIs(t, err, signals.ErrInvalidOption, name)
	}
	_, err := signals.To(p, signals.WithLag(time.Hour), signals.WithBackoff(time.Second, time.Second), signals.WithResyncLimit(1))
	require.NoError(t, err, "the bounds themselves")
	r, err := signals.To(p)
	require.NoError(t, err)
	for _, source := range []signals.Source[string]{nil, signals.SourceFunc[string](nil)} {
		assert.ErrorIs(t, r.Run(t.Context(), source), signals.ErrInvalidOption)
	}
	require.NoError(t, p.Close())
}

func TestAHintForNobodyAllocatesNothing(t *testing.T) {
	p := open(t)
	r, err := signals.To(p)
	require.NoError(t, err)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { r.Changed("nobody", 5) }))
	require.NoError(t, p.Close())
}

func BenchmarkHintForNobody(b *testing.B) {
	for name, options := range map[string][]signals.Option{"": nil, "/lag=0": {signals.WithLag(0)}} {
		b.Run("runner"+name, func(b *testing.B) {
			p, err := purgatory.New[string]("bench")
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			r, err := signals.To(p, options...)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				r.Changed("orders/12345", 77)
			}
		})
	}
}

// Missed is open to anybody. Without a source that runs it says nothing of a subscription.
func TestMissedBeforeRunIsNoSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		r, err := signals.To(p)
		require.NoError(t, err)
		r.Missed(nil)
		assert.False(t, r.Stats().Standing)
		stop := runIn(t, r, script())
		synctest.Wait()
		assert.False(t, r.Stats().Standing)
		assert.EqualValues(t, 1, r.Stats().Rechecks, "Run makes the re-check")
		stop()
		stop = runIn(t, r, script(stands))
		synctest.Wait()
		assert.True(t, r.Stats().Standing)
		assert.Zero(t, r.Stats().Gaps)
		stop()
		time.Sleep(time.Minute)
		r.Missed(nil)
		assert.Zero(t, r.Stats().Gaps, "nor afterwards")
		assert.Equal(t, time.Minute, r.Stats().SinceLastWord)
		require.NoError(t, p.Close())
	})
}
