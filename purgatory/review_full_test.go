package purgatory_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// Whoever has seen that the only pending operation has ended finds a place for the next one,
// however that has ended: in the purgatory, and in its timer.
func TestAnOperationThatHasEndedTakesNoPlace(t *testing.T) {
	for name, bound := range map[string]purgatory.Option{
		"of the purgatory": purgatory.WithMaxPending(1),
		"of the timer":     purgatory.WithTimerOptions(timer.WithMaxPending(1)),
	} {
		t.Run(name, func(t *testing.T) { endedTakesNoPlace(t, bound) })
	}
}

func endedTakesNoPlace(t *testing.T, bound purgatory.Option) {
	p := open[int](t, bound, purgatory.WithoutReaper())
	var last atomic.Pointer[op]
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !stop.Load(); i++ {
			o := last.Swap(nil)
			switch {
			case o == nil:
				runtime.Gosched()
			case i%4 == 0:
				p.ForceComplete(o)
			case i%4 == 1:
				p.CancelForKey(1, nil)
			case i%4 == 2:
				p.CompleteForKey(1)
			default:
				p.Cancel(o, nil)
			}
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	for range howMany(20_000, 7000) {
		o := &op{}
		if _, err := p.TryCompleteElseWatch(o, hour, 1); !assert.NoError(t, err) {
			return
		}
		last.Store(o)
		for o.Outcome() == operation.Pending {
			if last.Load() == o {
				runtime.Gosched()
			}
		}
	}
}
