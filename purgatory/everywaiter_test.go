package purgatory_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// A TryComplete that returns false ends a check in order, and no other check: also not one that a
// worker makes. The operations are more than a walk takes at once.
func TestANoEndsOnlyACheckInOrder(t *testing.T) {
	const waiting = 300
	for name, c := range map[string]struct {
		check   func(p *stringPurgatory)
		inOrder bool
	}{
		"check":              {func(p *stringPurgatory) { p.CheckAndComplete("a") }, false},
		"check of two":       {func(p *stringPurgatory) { p.CheckAndComplete("b", "a") }, false},
		"up to":              {func(p *stringPurgatory) { p.CheckAndCompleteUpTo("a", 7) }, false},
		"all":                {func(p *stringPurgatory) { p.CheckAndCompleteAll() }, false},
		"signal":             {func(p *stringPurgatory) { p.Signal("a") }, false},
		"signal of two":      {func(p *stringPurgatory) { p.Signal("b", "a") }, false},
		"signal up to":       {func(p *stringPurgatory) { p.SignalUpTo("a", 7) }, false},
		"signal all":         {func(p *stringPurgatory) { p.SignalAll() }, false},
		"both":               {func(p *stringPurgatory) { p.Signal("a"); p.SignalInOrder("a") }, false},
		"in order":           {func(p *stringPurgatory) { p.CheckAndCompleteInOrder("a") }, true},
		"signal in order":    {func(p *stringPurgatory) { p.SignalInOrder("a") }, true},
		"check of a Goexit":  {func(p *stringPurgatory) { endsItsGoroutine(p, "c", func() { p.CheckAndComplete("c", "a") }) }, false},
		"all, with a Goexit": {func(p *stringPurgatory) { endsItsGoroutine(p, "c", func() { p.CheckAndCompleteAll() }) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := onManualClock[string](t)
			var met atomic.Bool
			no := &op{}
			submit(t, p, no, hour, "a")
			var all []*op
			for i := range waiting {
				o := until(&met)
				if i%2 == 0 {
					submit(t, p, o, hour, "a")
				} else {
					_, err := p.TryCompleteElseWatchAt(o, hour, purgatory.KeyPosition[string]{Key: "a", Position: 5})
					require.NoError(t, err)
				}
				all = append(all, o)
			}
			met.Store(true)
			c.check(p)
			eventually(t, func() bool { return no.tries.Load() > 2 }, "the first in line is tried")
			for _, o := range all {
				if c.inOrder {
					pending(t, o)
				} else {
					endsSoon(t, o, operation.Satisfied)
				}
			}
			pending(t, no)
		})
	}
}

// endsItsGoroutine runs check on another goroutine, after it has registered an operation for key
// whose callback ends the goroutine.
func endsItsGoroutine(p *stringPurgatory, key string, check func()) {
	o := &op{complete: runtime.Goexit}
	o.try = func() bool { return o.tries.Load() > 2 }
	_, _ = p.TryCompleteElseWatch(o, hour, key)
	inBackground(check)()
}
