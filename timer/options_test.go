package timer

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInvalidOptionsAreAnErrorThatNamesTheValue(t *testing.T) {
	for _, c := range []struct {
		option Option
		names  string
	}{
		{WithTick(0), "tick is 0s"},
		{WithTick(-time.Second), "tick is -1s"},
		{WithWheelSize(1), "wheel size is 1"},
		{WithWheelSize(maxWheelSize + 1), "wheel size is 1048577"},
		{WithShards(0), "number of shards is 0"},
		{WithShards(3), "number of shards is 3"},
		{WithShards(512), "number of shards is 512"},
		{WithShards(math.MaxInt/2 + 1), "number of shards is "},
		{WithWorkers(0), "number of workers is 0"},
		{WithMaxPending(-1), "maximum of pending entries is -1"},
		{WithStallGrace(-1), "grace after a stall is -1ns"},
		{WithPanicHandler(nil), "panic handler is nil"},
		{WithLogger(nil), "logger is nil"},
		{nil, "a nil Option"},
	} {
		live0 := live.Load()
		s, err := NewSystemTimer(c.option)
		assert.Nil(t, s)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, c.names)
		assert.Equal(t, live0, live.Load())
		m, err := NewManualTimer(c.option)
		assert.Nil(t, m)
		require.ErrorIs(t, err, ErrInvalid)
	}
}

func TestExtremeOptionsWork(t *testing.T) {
	for _, opts := range [][]Option{
		{WithTick(1), WithWheelSize(2), WithShards(maxShards)},
		{WithTick(math.MaxInt64)},
		{WithWheelSize(maxWheelSize), WithShards(1)},
		{WithShards(1), WithWorkers(1), WithMaxPending(1), WithStallGrace(1)},
	} {
		m := newManual(t, opts...)
		tt := newTask(nil)
		addIn(t, m, tt, 0)
		checkInvariants(t, &m.store, nil)
		assert.True(t, m.AdvanceClock(0))
		addIn(t, m, tt, time.Hour)
		checkInvariants(t, &m.store, nil)
		m.AdvanceClock(2 * time.Hour)
		assert.Equal(t, m.tick < math.MaxInt64, m.Pending() == 0)
		checkInvariants(t, &m.store, nil)
	}
}

func TestDefaults(t *testing.T) {
	var c store
	require.NoError(t, c.init(defaultShards(), nil, nil), "the defaults are valid")
	assert.EqualValues(t, time.Millisecond, c.tick)
	assert.EqualValues(t, 64, c.wheelSize)
	assert.GreaterOrEqual(t, c.workers, 2)
	assert.Zero(t, c.maxPending)
	assert.GreaterOrEqual(t, c.shardCount, 8)
	assert.LessOrEqual(t, c.shardCount, maxShards)
	assert.Len(t, newManual(t).shards, 1)
}

func TestDefaultShardsAreEightForEachProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for procs, want := range map[int]int{1: 8, 2: 16, 3: 32, 4: 32, 5: 64, 8: 64, 9: 128, 32: 256, 100: 256} {
		runtime.GOMAXPROCS(procs)
		assert.Equal(t, want, defaultShards(), "%d processors", procs)
	}
}

// The same sequence of additions, cancellations and expiries runs the same tasks whatever
// the tick, the wheel size and the number of shards.
func TestOutcomesDoNotDependOnWheelOptions(t *testing.T) {
	outcome := func(opts ...Option) (order []int) {
		m := newManual(t, opts...)
		tasks := make([]*testTask, 300)
		for i := range tasks {
			tasks[i] = newTask(func() { order = append(order, i) })
			tasks[i].inShard(i)
			addIn(t, m, tasks[i], time.Duration(i*i*i%10007+1)*20*time.Millisecond)
		}
		for i, tt := range tasks {
			switch i % 5 {
			case 0:
				m.Cancel(&tt.TaskEntry)
			case 1:
				m.Extend(&tt.TaskEntry, tt.Deadline()+time.Duration(i)*20*time.Millisecond+1)
			case 2:
				m.Extend(&tt.TaskEntry, tt.Deadline()/2)
			}
			if i%50 == 0 {
				m.AdvanceClock(time.Second)
			}
		}
		m.AdvanceClock(time.Hour)
		return order
	}
	want := outcome(WithTick(1))
	assert.Greater(t, len(want), 200)
	for _, opts := range [][]Option{
		{WithTick(1), WithWheelSize(2)},
		{WithTick(1), WithWheelSize(20), WithShards(maxShards)},
		{WithTick(time.Microsecond), WithWheelSize(512)},
		{WithTick(time.Millisecond), WithWheelSize(3), WithShards(2)},
		{WithTick(10 * time.Millisecond)},
	} {
		assert.ElementsMatch(t, want, outcome(opts...))
	}
}
