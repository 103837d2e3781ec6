package purgatory_test

import (
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// ofTime is an operation whose condition depends on time.
type ofTime struct{ op }

func (*ofTime) DependsOnTime() {}

func TestAForgottenCheckSpeaks(t *testing.T) {
	var said strings.Builder
	p := onManualClock[string](t, purgatory.WithForgottenChecks(0), purgatory.WithKeyStats(8),
		purgatory.WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
	var met atomic.Bool
	ready, late, excused := until(&met), &op{}, &ofTime{}
	excused.try = met.Load
	submit(t, p, ready, time.Second, "orders-0", "orders-1")
	submit(t, p, late, time.Second, "orders-0")
	submit(t, p, excused, time.Second, "sessions")
	met.Store(true) // and no check
	p.AdvanceClock(2 * time.Second)
	ended(t, ready, operation.Satisfied)
	ended(t, late, operation.Expired)
	ended(t, &excused.op, operation.Expired)
	s := p.Stats()
	assert.EqualValues(t, 1, s.Forgotten)
	assert.EqualValues(t, 1, s.Satisfied)
	counts := map[string]int64{}
	for _, k := range p.Inspect(8, 0).Hot {
		counts[k.Key] = k.Forgotten
	}
	assert.Equal(t, map[string]int64{"orders-0": 1, "orders-1": 1, "sessions": 0}, counts)
	assert.Contains(t, said.String(), purgatory.EventForgotten)
	assert.Contains(t, said.String(), "key=orders-0")
	empty(t, p)
}

// A check or a signal of any of its keys that comes within the grace clears an operation.
func TestALateCheckIsNoForgottenOne(t *testing.T) {
	for name, check := range map[string]func(p *stringPurgatory){
		"check":    func(p *stringPurgatory) { p.CheckAndComplete("b") },
		"up to":    func(p *stringPurgatory) { p.CheckAndCompleteUpTo("a", 1) },
		"in order": func(p *stringPurgatory) { p.CheckAndCompleteInOrder("a") },
		"signal":   func(p *stringPurgatory) { p.Signal("a") },
		"all":      func(p *stringPurgatory) { p.CheckAndCompleteAll() },
		"signals":  func(p *stringPurgatory) { p.SignalAll() },
		"close":    func(p *stringPurgatory) { _ = p.Close() },
		"another":  func(p *stringPurgatory) { p.CheckAndComplete("c") },

		"check, with a Goexit in a callback":  func(p *stringPurgatory) { endsItsGoroutine(p, "b", func() { p.CheckAndComplete("b") }) },
		"signal, with a Goexit in a callback": func(p *stringPurgatory) { endsItsGoroutine(p, "b", func() { p.Signal("b") }) },
		"all, with a Goexit in a callback":    func(p *stringPurgatory) { endsItsGoroutine(p, "b", func() { p.CheckAndCompleteAll() }) },
	} {
		synctest.Test(t, func(t *testing.T) {
			p, err := purgatory.New[string](name, purgatory.WithForgottenChecks(time.Second))
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Shutdown(t.Context())) }()
			var met atomic.Bool
			o := until(&met)
			submit(t, p, o, time.Minute, "a", "b")
			met.Store(true)
			time.Sleep(time.Minute + 100*time.Millisecond)
			ended(t, o, operation.Satisfied)
			assert.Zero(t, p.Stats().Forgotten, "the grace goes on")
			check(p)
			time.Sleep(time.Minute)
			forgotten := int64(0)
			if name == "another" {
				forgotten = 1
			}
			assert.Equal(t, forgotten, p.Stats().Forgotten, name)
		})
	}
}

// The check that a worker makes for a signal counts when it is over, also if a callback ends its
// goroutine: an operation whose last try comes meanwhile was not forgotten.
func TestAWorkersCheckCountsAlthoughACallbackEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("worker", purgatory.WithForgottenChecks(time.Second))
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Shutdown(t.Context())) }()
		var met atomic.Bool
		o := until(&met)
		submit(t, p, o, time.Minute, "a")
		leaves := &op{complete: func() {
			met.Store(true)
			time.Sleep(time.Minute + 100*time.Millisecond) // the last try finds that o is ready
			runtime.Goexit()
		}}
		leaves.try = func() bool { return leaves.tries.Load() > 2 }
		submit(t, p, leaves, hour, "a")
		p.Signal("a")
		time.Sleep(2 * time.Minute)
		ended(t, o, operation.Satisfied)
		assert.Zero(t, p.Stats().Forgotten)
	})
}

func TestALastTryThatUnwindsEndsTheOperationAllTheSame(t *testing.T) {
	for name, unwind := range map[string]func(){"panic": func() { panic("of the try's") }, "goexit": runtime.Goexit} {
		var told panics
		p := onManualClock[string](t, told.option(), purgatory.WithForgottenChecks(0))
		o := &op{}
		o.try = func() bool {
			if o.tries.Load() == 3 {
				unwind()
			}
			return false
		}
		submit(t, p, o, time.Second, "a")
		p.AdvanceClock(2 * time.Second)
		ended(t, o, operation.Expired)
		assert.EqualValues(t, map[string]int{"panic": 1}[name], told.n.Load())
	}
}

// A grace that has not passed keeps no purgatory in memory that is closed.
func TestAGraceEndsWithThePurgatory(t *testing.T) {
	for name, end := range map[string]func(p *stringPurgatory){
		"close":  func(p *stringPurgatory) {},
		"check":  func(p *stringPurgatory) { p.CheckAndComplete("a") },
		"all":    func(p *stringPurgatory) { p.SignalAll() },
		"second": func(p *stringPurgatory) { p.CheckAndComplete("b") },
	} {
		t.Run(name, func(t *testing.T) {
			closed := func() weak.Pointer[stringPurgatory] {
				clock, err := timer.NewManualTimer()
				require.NoError(t, err)
				p, err := purgatory.New[string]("p", purgatory.WithTimer(clock), purgatory.WithForgottenChecks(hour))
				require.NoError(t, err)
				var met atomic.Bool
				o := until(&met)
				submit(t, p, o, time.Minute, "a", "b")
				met.Store(true)
				p.AdvanceClock(time.Minute)
				ended(t, o, operation.Satisfied)
				end(p)
				require.NoError(t, p.Shutdown(t.Context()))
				assert.Zero(t, p.Stats().Forgotten)
				return weak.Make(p)
			}()
			for range 20 {
				runtime.GC()
			}
			assert.Nil(t, closed.Value())
		})
	}
}

// Shutdown waits for a goroutine that logs a forgotten check.
func TestShutdownWaitsForTheRecordOfAForgottenCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged atomic.Bool
		p, err := purgatory.New[string]("p", purgatory.WithForgottenChecks(time.Second),
			purgatory.WithLogger(slog.New(unwinding{purgatory.EventForgotten, func() {
				time.Sleep(time.Minute)
				logged.Store(true)
			}})))
		require.NoError(t, err)
		var met atomic.Bool
		o := until(&met)
		submit(t, p, o, time.Second, "a")
		met.Store(true)
		time.Sleep(3 * time.Second)
		require.EqualValues(t, 1, o.completed.Load())
		require.EqualValues(t, 1, p.Stats().Forgotten)
		require.NoError(t, p.Shutdown(t.Context()))
		assert.True(t, logged.Load(), "Shutdown has returned before")
		time.Sleep(2 * time.Minute)
	})
}
