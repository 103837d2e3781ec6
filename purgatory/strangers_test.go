package purgatory_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// A method that is given an operation of another purgatory changes nothing in either
// purgatory, whether they share a timer or not.
func TestOperationsOfAnotherPurgatoryAreRefused(t *testing.T) {
	shared, err := timer.NewManualTimer(timer.WithMaxPending(100))
	require.NoError(t, err)
	for name, clocks := range map[string][2]purgatory.Option{
		"timers of their own": {purgatory.WithWatcherShards(1), purgatory.WithWatcherShards(64)},
		"one timer":           {purgatory.WithTimer(shared), purgatory.WithTimer(shared)},
	} {
		t.Run(name, func(t *testing.T) {
			produce := open[int](t, clocks[0])
			fetch := open[string](t, clocks[1])
			o := submitted(t, produce, 1, 2, 3)
			for range 3 {
				assert.False(t, fetch.Extend(o, time.Nanosecond))
				assert.False(t, fetch.Extend(o, 2*hour))
				assert.False(t, fetch.Cancel(o, errGone))
				assert.False(t, fetch.ForceComplete(o))
				_, err := fetch.TryCompleteElseWatch(o, time.Nanosecond, "a", "b")
				assert.ErrorIs(t, err, purgatory.ErrUsed)
				assert.ErrorContains(t, err, "another purgatory")
			}
			pending(t, o)
			empty(t, fetch)
			assert.True(t, produce.Extend(o, hour))
			assert.True(t, produce.Cancel(o, errGone))
			ended(t, o, operation.Cancelled)
			assert.Equal(t, errGone, o.Cause())
			for _, p := range []interface{ Close() error }{produce, fetch} {
				require.NoError(t, p.Close())
			}
		})
	}
}

func TestOperationsOfAnotherPurgatoryAreRefusedUnderRace(t *testing.T) {
	produce, fetch := open[int](t, purgatory.WithTimerOptions(timer.WithShards(1))), open[int](t, purgatory.WithTimerOptions(timer.WithShards(64)))
	var wg sync.WaitGroup
	var stop atomic.Bool
	current := make(chan *op, 1)
	for range 2 {
		wg.Go(func() { // methods of the other purgatory
			for !stop.Load() {
				select {
				case o := <-current:
					assert.False(t, fetch.Extend(o, time.Millisecond))
					assert.False(t, fetch.Cancel(o, errGone))
					assert.False(t, fetch.ForceComplete(o))
				default:
					runtime.Gosched()
				}
			}
		})
	}
	for i := range 2000 {
		var met atomic.Bool
		o := until(&met)
		select {
		case current <- o:
		default:
		}
		if _, err := produce.TryCompleteElseWatch(o, time.Duration(i%3)*time.Millisecond, 1, i); !assert.NoError(t, err) {
			break
		}
		select {
		case current <- o:
		default:
		}
		met.Store(true)
		produce.CheckAndComplete(1)
		eventually(t, func() bool { return o.completed.Load() == 1 }, "it ends once")
		assert.NoError(t, o.Cause())
	}
	stop.Store(true)
	wg.Wait()
	empty(t, fetch)
	conserved(t, produce)
}

func TestAnotherPurgatorysMethodsReturnFalse(t *testing.T) {
	mine, clock := onManualClock[string](t), func() *timer.ManualTimer {
		c, err := timer.NewManualTimer()
		require.NoError(t, err)
		return c
	}()
	other := open[int](t, purgatory.WithTimer(clock))
	errForeign := errors.New("foreign")
	o := &op{}
	submit(t, mine, o, time.Second, "a")
	assert.False(t, other.ForceComplete(o))
	assert.False(t, other.Cancel(o, errForeign))
	assert.False(t, other.Extend(o, hour))
	assert.False(t, other.Extend(o, 0))
	pending(t, o)
	mine.AdvanceClock(time.Second)
	ended(t, o, operation.Expired)

	held := newGate()
	busy := &op{}
	busy.try = func() bool {
		if busy.tries.Load() == 3 {
			held.pass()
		}
		return false
	}
	submit(t, mine, busy, hour, "a")
	wait := inBackground(func() { mine.CheckAndComplete("a") })
	<-held.entered
	assert.False(t, other.Cancel(busy, errForeign)) // this leaves no wish
	close(held.leave)
	wait()
	pending(t, busy)
}
