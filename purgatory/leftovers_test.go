package purgatory_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// Verbs use objects of earlier ones again, and nothing of what these were for is left in them.
func TestNoVerbLeavesAnythingToTheNext(t *testing.T) {
	errOther := errors.New("other")
	firsts := map[string]func(p *stringPurgatory){
		"match": func(p *stringPurgatory) {
			p.CancelMatching("x", errGone, func(operation.Operation) bool { return false })
		},
		"cancel":   func(p *stringPurgatory) { p.CancelForKey("x", errGone) },
		"complete": func(p *stringPurgatory) { p.CompleteForKey("x") },
		"in order": func(p *stringPurgatory) { p.CheckAndCompleteInOrder("x") },
		"up to":    func(p *stringPurgatory) { p.CheckAndCompleteUpTo("x", -5) },
		"check":    func(p *stringPurgatory) { p.CheckAndComplete("x") },
		"expire":   func(p *stringPurgatory) { p.AdvanceClock(time.Minute) },
	}
	seconds := map[string]struct {
		do      func(p *stringPurgatory) int
		outcome operation.Outcome
		cause   error
	}{
		"check":    {func(p *stringPurgatory) int { return p.CheckAndComplete("a") }, operation.Satisfied, nil},
		"cancel":   {func(p *stringPurgatory) int { return p.CancelForKey("a", errOther) }, operation.Cancelled, errOther},
		"no cause": {func(p *stringPurgatory) int { return p.CancelForKey("a", nil) }, operation.Cancelled, nil},
		"complete": {func(p *stringPurgatory) int { return p.CompleteForKey("a") }, operation.Forced, nil},
		"close":    {func(p *stringPurgatory) int { _ = p.Close(); return 3 }, operation.Closed, nil},
	}
	for before, first := range firsts {
		for name, second := range seconds {
			p := onManualClock[string](t, purgatory.WithWatcherShards(1))
			for range 3 {
				submit(t, p, &op{}, time.Second, "x")
			}
			first(p)
			var met atomic.Bool
			all := []*op{{}, until(&met), until(&met), until(&met)}
			if second.outcome != operation.Satisfied {
				all = all[1:]
			}
			for _, o := range all {
				submit(t, p, o, hour, "a")
			}
			met.Store(true)
			assert.Equal(t, 3, second.do(p), "%s after %s", name, before)
			for _, o := range all[len(all)-3:] {
				ended(t, o, second.outcome)
				assert.Equal(t, second.cause, o.Cause(), "%s after %s", name, before)
			}
		}
	}
}

// The purgatory overrides what WithTimerOptions says of workers and panic handler,
// whatever the order of the options.
func TestThePurgatorysOptionsOverrideThoseOfItsTimer(t *testing.T) {
	of := purgatory.WithTimerOptions(timer.WithWorkers(1),
		timer.WithPanicHandler(func(v any, _ []byte) { t.Errorf("the timer's handler has got %v", v) }))
	var inside atomic.Int32
	var told panics
	for _, opts := range [][]purgatory.Option{
		{of, purgatory.WithExpiryWorkers(3), told.option()},
		{purgatory.WithExpiryWorkers(3), told.option(), of},
	} {
		inside.Store(0)
		p := open[string](t, opts...)
		leave := make(chan struct{})
		for range 3 {
			submit(t, p, &op{expire: func() { inside.Add(1); <-leave; panic("of the test") }}, time.Millisecond, "a")
		}
		eventually(t, func() bool { return inside.Load() == 3 }, "three workers at once")
		close(leave)
		require.NoError(t, p.Shutdown(t.Context()))
	}
	assert.EqualValues(t, 6, told.n.Load())
}
