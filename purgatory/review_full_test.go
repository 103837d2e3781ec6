package purgatory_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Whoever has seen that the only pending operation has ended finds a place for the next one,
// however that has ended.
func TestAnOperationThatHasEndedTakesNoPlace(t *testing.T) {
	p := open[int](t, purgatory.WithMaxPending(1), purgatory.WithoutReaper())
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
	for range 20_000 {
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
