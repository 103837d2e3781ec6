package purgatory_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// slots are items of which an operation takes several at once.
type slots struct{ free int }

func (s *slots) take(n int) func() bool {
	return func() bool {
		if s.free < n {
			return false
		}
		s.free -= n
		return true
	}
}

// Two slots are too few for the first in line. When it leaves, the second one gets them, and nobody calls a check.
func TestThoseBehindALeaverAreTried(t *testing.T) {
	for name, leave := range map[string]func(p *purgatory.Purgatory[string], first *op){
		"cancelled":      func(p *purgatory.Purgatory[string], first *op) { p.Cancel(first, nil) },
		"forced":         func(p *purgatory.Purgatory[string], first *op) { p.ForceComplete(first) },
		"expired":        func(p *purgatory.Purgatory[string], _ *op) { p.AdvanceClock(time.Minute) },
		"its connection": func(p *purgatory.Purgatory[string], _ *op) { p.CancelForKey("connection", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t, purgatory.WithFirstInFirstOut())
			s := &slots{}
			first, second := &op{try: s.take(3)}, &op{try: s.take(2)}
			submit(t, p, first, time.Minute, "line", "connection")
			submit(t, p, second, time.Hour, "line")
			s.free = 2
			require.Zero(t, p.CheckAndCompleteInOrder("line"), "the first in line needs three")
			leave(p, first)
			endsSoon(t, second, operation.Satisfied)
		})
	}
}

// While no worker of the timer runs, a check in order passes over the first in line, whose deadline has
// passed, and ends it.
func TestNothingGoesToAPassedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open[string](t, purgatory.WithFirstInFirstOut(), purgatory.WithoutReaper())
		defer p.Close()
		s := &slots{}
		first, second := &op{try: s.take(1)}, &op{try: s.take(1)}
		submit(t, p, first, time.Minute, "line")
		submit(t, p, second, time.Hour, "line")
		time.Sleep(2 * time.Minute)
		s.free = 1
		assert.Equal(t, 2, p.CheckAndCompleteInOrder("line"))
		ended(t, first, operation.Expired)
		ended(t, second, operation.Satisfied)
		assert.EqualValues(t, 1, p.Stats().PassedOver)
	})
}

// A check that comes between the end of the context and the return of Await does not call the condition.
func TestNothingGoesToAClientThatHasLeft(t *testing.T) {
	p := open[string](t)
	for range 200 {
		ctx, leave := context.WithCancel(t.Context())
		var left, taken atomic.Bool
		var calls atomic.Int32
		wait := inBackground(func() {
			err := p.Await(ctx, time.Hour, func() bool {
				taken.Store(taken.Load() || left.Load())
				calls.Add(1)
				return taken.Load()
			}, "a")
			assert.ErrorIs(t, err, context.Canceled)
		})
		eventually(t, func() bool { return calls.Load() == 2 }, "the wait begins")
		leave()
		left.Store(true)
		p.CheckAndComplete("a")
		wait()
		require.False(t, taken.Load())
	}
}

// A Shutdown whose context has ended returns when the callbacks of what it has ended have run. One that blocks
// holds it up for the drain time only, and the error counts it.
func TestADrainAnswersEverybody(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		text  string
	}{
		"all answer":          {900 * time.Millisecond, ""},
		"one does not answer": {3 * time.Second, "1 operations are unanswered"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open[string](t)
				o := &op{complete: func() { time.Sleep(c.takes) }}
				submit(t, p, o, hour, "a")
				ctx, end := context.WithCancelCause(t.Context())
				cause := errors.New("the process ends")
				end(cause)
				began := time.Now()
				err := p.Shutdown(ctx)
				require.ErrorIs(t, err, cause)
				assert.LessOrEqual(t, time.Since(began), 1100*time.Millisecond, "the bubble's time")
				if c.text == "" {
					assert.GreaterOrEqual(t, time.Since(began), c.takes)
					assert.Equal(t, cause, err)
				} else {
					assert.ErrorContains(t, err, c.text)
				}
				require.NoError(t, p.Shutdown(t.Context()))
				ended(t, o, operation.Closed)
			})
		})
	}
}
