package timer

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestManualClockStopsAtEveryExpiry(t *testing.T) {
	m := newManual(t)
	var at []time.Duration
	for _, d := range []time.Duration{7, 300, 5, 7, 100_000} {
		addIn(t, m, newTask(func() { at = append(at, m.Now()/time.Millisecond) }), d*time.Millisecond)
	}
	assert.True(t, m.AdvanceClock(time.Hour))
	assert.Equal(t, []time.Duration{5, 7, 7, 300, 100_000}, at)
	assert.Equal(t, time.Hour, m.Now())
}

func TestManualAdvanceReportsWhetherATaskRan(t *testing.T) {
	m := newManual(t)
	assert.False(t, m.AdvanceClock(0))
	assert.False(t, m.AdvanceClock(time.Second))

	tt := newTask(nil)
	addIn(t, m, tt, 0)
	m.Cancel(&tt.TaskEntry)
	assert.False(t, m.AdvanceClock(0), "due, but cancelled")

	addIn(t, m, tt, time.Second)
	m.Extend(&tt.TaskEntry, time.Hour)
	assert.False(t, m.AdvanceClock(2*time.Second), "extended")
	assert.True(t, m.AdvanceClock(time.Hour))
}

func TestManualClockDoesNotGoBack(t *testing.T) {
	m := newManual(t)
	m.AdvanceClock(time.Second)
	tt := newTask(nil)
	addIn(t, m, tt, 0)
	for _, d := range []time.Duration{-1, -5 * ms, math.MinInt64} {
		assert.PanicsWithValue(t, fmt.Sprintf("timer: AdvanceClock(%v): the clock does not go back", d), func() { m.AdvanceClock(d) })
	}
	assert.Zero(t, tt.runs.Load())
	assert.True(t, m.AdvanceClock(0), "nothing is lost")
	assert.Equal(t, time.Second, m.Now())
}

func TestManualRunsDueTasksBeforeItMoves(t *testing.T) {
	m := newManual(t)
	m.AdvanceClock(time.Second / 3)
	var at time.Duration
	addIn(t, m, newTask(func() { at = m.Now() }), 0)
	m.AdvanceClock(time.Hour)
	assert.Equal(t, time.Second/3, at)
}

func TestManualClockStopsBeforeNever(t *testing.T) {
	m := newManual(t)
	m.AdvanceClock(math.MaxInt64)
	assert.Equal(t, Never-1, m.Now())
	m.AdvanceClock(math.MaxInt64)
	assert.Equal(t, Never-1, m.Now())
	addIn(t, m, newTask(nil), time.Hour)
	assert.False(t, m.AdvanceClock(time.Hour), "what is left of time does not suffice for a timeout")
	addIn(t, m, newTask(nil), 0)
	assert.True(t, m.AdvanceClock(0))
}

func TestManualAdvanceFromATaskExtendsTheMove(t *testing.T) {
	m := newManual(t)
	var later time.Duration
	addIn(t, m, newTask(func() {
		assert.False(t, m.AdvanceClock(time.Hour))
		assert.Equal(t, time.Second, m.Now(), "the clock does not move beneath a task")
		addIn(t, m, newTask(func() { later = m.Now() }), time.Minute)
	}), time.Second)
	m.AdvanceClock(2 * time.Second)
	assert.Equal(t, time.Minute+time.Second, later)
	assert.Equal(t, time.Hour+2*time.Second, m.Now())
}

func TestManualStopFromATask(t *testing.T) {
	m := newManual(t)
	var unfired []any
	addIn(t, m, newTask(func() { unfired = m.Stop() }), time.Second)
	same, later := newTask(nil), newTask(nil)
	addIn(t, m, same, time.Second)
	addIn(t, m, later, time.Hour)
	m.AdvanceClock(2 * time.Hour)
	assert.ElementsMatch(t, []Task{same, later}, unfired)
	assert.Zero(t, same.runs.Load()+later.runs.Load())
}

func TestManualPanicDoesNotStopTheOthers(t *testing.T) {
	var recovered []any
	m := newManual(t, WithPanicHandler(func(v any, stack []byte) {
		recovered = append(recovered, v)
		assert.Contains(t, string(stack), "TestManualPanic")
	}))
	quiet := newTask(nil)
	addIn(t, m, newTask(func() { panic("first") }), time.Second)
	addIn(t, m, quiet, time.Second)
	addIn(t, m, newTask(func() { panic("second") }), 2*time.Second)
	m.AdvanceClock(time.Minute)
	assert.Equal(t, []any{"first", "second"}, recovered)
	assert.EqualValues(t, 1, quiet.runs.Load())
}

// A task that calls FailNow of a test ends the goroutine that moves the clock. Others move it
// to its target and run the remaining tasks.
func TestManualGoexitDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManual(t)
		second, third := newTask(nil), newTask(nil)
		for range 1000 {
			addIn(t, m, newTask(runtime.Goexit), time.Second)
		}
		addIn(t, m, second, time.Second)
		addIn(t, m, third, time.Minute)
		returned := false
		go func() { m.AdvanceClock(time.Hour); returned = true }()
		synctest.Wait()
		assert.False(t, returned)
		assert.EqualValues(t, 1, second.runs.Load())
		assert.EqualValues(t, 1, third.runs.Load())
		assert.Equal(t, time.Hour, m.Now())
		assert.False(t, m.AdvanceClock(0), "nothing is left")
		checkInvariants(t, &m.store, nil)
	})
}

func TestManualClockMayBeMovedConcurrently(t *testing.T) {
	m := newManual(t, WithShards(8))
	tasks := make([]*testTask, 1000)
	for i := range tasks {
		tasks[i] = newTask(nil)
		addIn(t, m, tasks[i], time.Duration(i)*time.Millisecond)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				m.AdvanceClock(time.Millisecond)
			}
		})
	}
	wg.Wait()
	m.AdvanceClock(0)
	require.Equal(t, 1600*time.Millisecond, m.Now())
	for _, tt := range tasks {
		require.EqualValues(t, 1, tt.runs.Load())
	}
}
