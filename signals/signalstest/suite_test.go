package signalstest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

func key(i int) string { return fmt.Sprint("key-", i) }

func TestConformance(t *testing.T) {
	signalstest.Run(t, func(*testing.T) signalstest.Engine[string] {
		return signalstest.NewBus[string](64).Engine(key)
	})
}

// SIGNALS_CUTS=1000 makes 1,000 cuts, with 15,000 waits.
func TestNothingIsLostAtRandomCuts(t *testing.T) {
	bus := signalstest.NewBus[string](8)
	bus.At = func(signalstest.Moment) {
		if rand.N(20) == 0 {
			bus.Cut()
		}
	}
	e := bus.Engine(key)
	e.Cuts, _ = strconv.Atoi(os.Getenv("SIGNALS_CUTS"))
	o, err := signalstest.RandomCuts(t.Context(), e)
	require.NoError(t, err)
	assert.Zero(t, o.Lost)
	assert.Zero(t, o.Twice)
	assert.Equal(t, o.Waits, o.Answered)
	t.Log(o)
}

// Each moment alone, and each combination of moments.
func TestACutAtEveryMomentLosesNothing(t *testing.T) {
	for moments := 1; moments < 16; moments++ {
		bus := signalstest.NewBus[string](8)
		left := 40
		bus.At = func(m signalstest.Moment) { // on the source's goroutine
			if moments>>m&1 != 0 && left > 0 && rand.N(3) > 0 {
				left--
				bus.Cut()
			}
		}
		e := bus.Engine(key)
		e.Cuts, e.Waits = 4, 10
		o, err := signalstest.RandomCuts(t.Context(), e)
		require.NoError(t, err)
		require.Zero(t, o.Lost, "moments %04b", moments)
	}
}

func TestManyWaitsInAShortPause(t *testing.T) {
	e := signalstest.NewBus[string](8).Engine(key)
	e.Cuts, e.Pause = 1, 1
	o, err := signalstest.RandomCuts(t.Context(), e)
	require.NoError(t, err)
	assert.Zero(t, o.Lost)
}

// deaf passes on hints and the first subscription, without which the checks would not begin.
type deaf struct {
	signals.Sink[string]
	heard *bool
}

func (d deaf) Missed(error) {}

func (d deaf) Subscribed(s signals.Subscription) {
	if !*d.heard {
		*d.heard = true
		d.Sink.Subscribed(s)
	}
}

// believing takes a subscription that the engine has accepted for one that it delivers to.
type believing struct{ signals.Sink[string] }

func (b believing) Subscribed(signals.Subscription) { b.Missed(signals.ErrSubscribed) }

// deafTo passes on everything but hints whose keys have a part.
type deafTo struct {
	signals.Sink[string]
	part string
}

func (d deafTo) Changed(key string, position int64) {
	if !strings.Contains(key, d.part) {
		d.Sink.Changed(key, position)
	}
}

func TestWithoutMissedWaitsAreLost(t *testing.T) {
	e := signalstest.NewBus[string](8).Engine(key)
	e.Cuts, e.Patience = 500, 500*time.Millisecond
	heard := false
	e.Middle = func(s signals.Sink[string]) signals.Sink[string] { return deaf{s, &heard} }
	o, err := signalstest.RandomCuts(t.Context(), e)
	require.NoError(t, err)
	assert.Positive(t, o.Lost)
	t.Log(o)
}

// Each check finds a source that has the defect that the check is for.
func TestEachConformanceCheckFindsItsDefect(t *testing.T) {
	bus := signalstest.NewBus[string](64)
	good, written := bus.Source(), make(chan struct{}, 1)
	type run = func(ctx context.Context, sink signals.Sink[string]) error
	mutants := map[string]struct {
		run   run
		check string
	}{
		"hears nothing but itself": {func(ctx context.Context, sink signals.Sink[string]) error {
			return good.Run(ctx, deafTo{sink, "key-"})
		}, "stands before it says so"},
		"believes what it is told": {func(ctx context.Context, sink signals.Sink[string]) error {
			return good.Run(ctx, believing{sink})
		}, "does not stand where the engine delivers nothing"},
		"hears itself once": {func(ctx context.Context, sink signals.Sink[string]) error {
			return good.Run(ctx, believing{sink})
		}, "an engine that delivers nothing any more shows, and loses no wait"},
		"says so before it stands": {func(ctx context.Context, sink signals.Sink[string]) error {
			sink.Missed(signals.ErrSubscribed)
			select {
			case <-written: // inside the re-check
			case <-ctx.Done():
			}
			heard := true
			return good.Run(ctx, deaf{sink, &heard})
		}, "no hint is lost that comes after the re-check, at a reconnect"},
		"does not say that it reconnected": {func() run {
			heard := false
			return func(ctx context.Context, sink signals.Sink[string]) error { return good.Run(ctx, deaf{sink, &heard}) }
		}(), "no wait is lost at a cut"},
		"does not resume": {func() run {
			heard := false
			return func(ctx context.Context, sink signals.Sink[string]) error { return good.Run(ctx, deaf{sink, &heard}) }
		}(), "no hint is lost that comes after the re-check, at a reconnect"},
		"keeps quiet about an overflow": {func(ctx context.Context, sink signals.Sink[string]) error {
			heard := false
			return good.Run(ctx, deaf{sink, &heard})
		}, "says so after an overflow"},
		"stays in Run during an outage": {func(ctx context.Context, sink signals.Sink[string]) error {
			for ctx.Err() == nil {
				_ = good.Run(ctx, sink)
			}
			return ctx.Err()
		}, "an outage shows, and loses no wait"},
		"hears one server only": {func(ctx context.Context, sink signals.Sink[string]) error {
			return good.Run(ctx, deafTo{sink, "key-1"})
		}, "no wait is lost whose key is written elsewhere after a gap"},
		"seems to stand without rights": {func(ctx context.Context, sink signals.Sink[string]) error {
			for ctx.Err() == nil {
				_ = good.Run(ctx, sink)
			}
			return ctx.Err()
		}, "rights that are taken away show, and lose no wait"},
		"does not end": {func(_ context.Context, sink signals.Sink[string]) error {
			return good.Run(t.Context(), sink)
		}, "ends with its context"},
		"calls on": {func(ctx context.Context, sink signals.Sink[string]) error {
			go func() { _ = good.Run(t.Context(), sink) }()
			<-ctx.Done()
			return ctx.Err()
		}, "ends with its context"},
		"leaves a goroutine": {func(ctx context.Context, sink signals.Sink[string]) error {
			go func() { <-t.Context().Done() }()
			return good.Run(ctx, sink)
		}, "leaves no goroutine"},
	}
	for name, mutant := range mutants {
		t.Run(name, func(t *testing.T) {
			for _, c := range signalstest.Checks[string]() {
				if c.Name != mutant.check {
					continue
				}
				e := bus.Engine(func(i int) string { return fmt.Sprint(name, "/", key(i)) }) // the mutants share the bus
				e.Cuts, e.Waits, e.Pause, e.Patience = 300, 15, 2*time.Millisecond, 300*time.Millisecond
				e.Resumes = name == "does not resume"
				e.Source = func() signals.Source[string] { return signals.SourceFunc[string](mutant.run) }
				if write := e.Write; name == "says so before it stands" {
					e.Write = func(ctx context.Context, key string, position int64) error {
						defer func() {
							select {
							case written <- struct{}{}:
							default:
							}
						}()
						return write(ctx, key, position)
					}
				}
				var err error
				for range 30 { // some defects show only where a hint falls into a short moment
					if err = c.Run(t.Context(), e); err != nil {
						break
					}
				}
				require.Error(t, err)
				assert.NotErrorIs(t, err, context.Canceled)
				t.Log(err)
				bus.Cut()
				return
			}
			t.Fatal("no such check")
		})
	}
}
