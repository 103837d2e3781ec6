package timer

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/internal/workers"
)

// The timer offers refused work to the executor again, although no other entry is pending.
func TestExecutorThatRefusesThenAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		refusals := 3
		timer := newSystem(t, WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			WithExecutor(func(run func()) error {
				if refusals--; refusals >= 0 {
					return errors.New("no room")
				}
				go run()
				return nil
			}))
		var at time.Duration
		tt := newTask(func() { at = timer.Now() })
		addIn(t, timer, tt, time.Second)
		settle(time.Second)
		assert.Equal(t, 1, timer.Pending(), "refused, so it stays due")
		settle(time.Minute)
		assert.EqualValues(t, 1, tt.runs.Load())
		assert.Less(t, at, time.Second+3*(workers.RetryAfter+2*time.Millisecond))
		assert.Contains(t, log.String(), "no room")
		assert.True(t, timer.Idle())

		refusals = 1
		settle(time.Hour)
		addIn(t, timer, tt, 0) // refused on this goroutine, while the driver sleeps
		settle(time.Second)
		assert.EqualValues(t, 2, tt.runs.Load())
	})
}

func TestExecutorThatAlwaysRefusesLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t, WithExecutor(func(func()) error { return errors.New("closed") }))
		a, b := newTask(nil), newTask(nil)
		addIn(t, timer, a, time.Second)
		addIn(t, timer, b, time.Second)
		settle(time.Minute)
		assert.True(t, timer.Cancel(&a.TaskEntry))
		assert.Equal(t, []any{b}, timer.Stop())
	})
}

func TestExecutorThatPanicsOrExitsIsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics []any
		calls := 0
		timer := newSystem(t, WithWorkers(1),
			WithPanicHandler(func(v any, _ []byte) { panics = append(panics, v) }),
			WithExecutor(func(run func()) error {
				switch calls++; calls {
				case 1:
					runtime.Goexit()
				case 2:
					panic("send on closed channel")
				}
				go run()
				return nil
			}))
		tt := newTask(nil)
		var wg sync.WaitGroup
		wg.Go(func() { addIn(t, timer, tt, 0) }) // the executor ends this goroutine, and not that of the driver
		wg.Wait()
		settle(time.Minute)
		assert.EqualValues(t, 1, tt.runs.Load())
		assert.Equal(t, []any{"send on closed channel"}, panics)
		assert.True(t, timer.Idle(), "neither counts as a running worker")
	})
}

func TestExecutorGetsOneWorkerAtATimeForEachPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queue []func()
		timer := newSystem(t, WithWorkers(2), WithExecutor(func(run func()) error {
			queue = append(queue, run)
			return nil
		}))
		tasks := make([]*testTask, 200)
		for i := range tasks {
			tasks[i] = newTask(nil)
			addIn(t, timer, tasks[i], 0)
		}
		settle(time.Minute)
		assert.Len(t, queue, 2)
		queue[0]()
		for _, tt := range tasks {
			assert.EqualValues(t, 1, tt.runs.Load())
		}
		queue[1]() // finds no work
		assert.True(t, timer.Idle())
	})
}

// Refused work is offered again after workers.RetryAfter, even if the tick is longer than that.
func TestARefusedExpiryIsRetriedBeforeTheNextTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals := 0
		timer := newSystem(t, WithTick(3*time.Second), WithExecutor(func(run func()) error {
			if refusals--; refusals >= 0 {
				return errors.New("no room")
			}
			go run()
			return nil
		}))
		var at time.Duration
		tt := newTask(func() { at = timer.Now() })
		settle(time.Second)
		refusals = 2
		addIn(t, timer, tt, 0) // refused on this goroutine, while the driver sleeps
		settle(time.Hour)
		assert.Equal(t, time.Second+2*workers.RetryAfter, at)

		refusals = 3
		now := timer.Now()
		addIn(t, timer, tt, time.Second) // refused on the goroutine of the driver
		settle(time.Hour)
		due := (now + time.Second + 3*time.Second - 1).Truncate(3 * time.Second)
		assert.Equal(t, due+3*workers.RetryAfter, at)
	})
}
