package timer

import (
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A worker claims entries one by one: while one task blocks its worker, another worker runs
// all other entries of the same shard and tick.
func TestBlockedTaskDelaysNobodyWhileAWorkerIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t, WithWorkers(2), WithShards(1))
		hold := make(chan struct{})
		addIn(t, timer, newTask(func() { <-hold }), time.Second)
		others := make([]*testTask, 100)
		for i := range others {
			others[i] = newTask(nil)
			addIn(t, timer, others[i], time.Second)
		}
		late := newTask(nil)
		addIn(t, timer, late, time.Minute)
		settle(time.Second)
		for _, tt := range others {
			assert.EqualValues(t, 1, tt.runs.Load())
		}
		settle(time.Minute)
		assert.EqualValues(t, 1, late.runs.Load())
		close(hold)
	})
}

// A reading of the clock that shows one deadline to have passed serves for those before it, too.
func TestAWorkerReadsTheClockOnceForAllThatIsDue(t *testing.T) {
	m := newManual(t)
	readings := 0
	m.clock = spied{m, func() time.Duration { readings++; return m.read() }, m.need}
	tasks := make([]*testTask, runLength)
	for i := range tasks {
		tasks[i] = newTask(nil)
		addIn(t, m, tasks[i], time.Second)
	}
	m.AdvanceClock(time.Second)
	assert.Zero(t, readings, "the flush has read it")
	for _, tt := range tasks {
		assert.EqualValues(t, 1, tt.runs.Load())
		addIn(t, m, tt, 0)
		require.True(t, m.Extend(&tt.TaskEntry, time.Minute))
	}
	readings = 0
	assert.False(t, m.AdvanceClock(0))
	assert.Equal(t, 1, readings, "all have been extended")
	checkInvariants(t, &m.store, nil)
	m.Stop()
}

// While 15 tasks for each processor block, the timer still runs others.
func TestTheDefaultWorkersStandManyBlockedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t)
		hold := make(chan struct{})
		for range 15 * runtime.GOMAXPROCS(0) {
			addIn(t, timer, newTask(func() { <-hold }), time.Second)
		}
		settle(time.Second)
		other := newTask(nil)
		addIn(t, timer, other, time.Second)
		settle(time.Second)
		assert.EqualValues(t, 1, other.runs.Load())
		close(hold)
	})
}

func TestDueEntriesCanBeCancelledWhileWorkersBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t, WithWorkers(2))
		hold := make(chan struct{})
		for range 2 {
			addIn(t, timer, newTask(func() { <-hold }), 0)
		}
		synctest.Wait()
		cancelled, extended, kept := newTask(nil), newTask(nil), newTask(nil)
		for _, tt := range []*testTask{cancelled, extended, kept} {
			addIn(t, timer, tt, time.Second)
		}
		settle(time.Hour)
		assert.Equal(t, 3, timer.Pending())
		assert.True(t, timer.Cancel(&cancelled.TaskEntry))
		assert.True(t, timer.Extend(&extended.TaskEntry, timer.Now()+time.Minute))
		close(hold)
		synctest.Wait()
		assert.Zero(t, cancelled.runs.Load())
		assert.Zero(t, extended.runs.Load())
		assert.EqualValues(t, 1, kept.runs.Load())
		settle(time.Minute)
		assert.EqualValues(t, 1, extended.runs.Load())
		assert.True(t, timer.Idle())
	})
}

func TestWorkersAreBoundedAndEndWhenNothingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 3
		timer := newSystem(t, WithWorkers(limit))
		var mu sync.Mutex
		running, most, ran := 0, 0, 0
		for range 20 {
			addIn(t, timer, newTask(func() {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				ran++
				mu.Unlock()
			}), time.Second)
		}
		settle(time.Second + time.Second/2)
		assert.Equal(t, limit, timer.pool.Running())
		settle(time.Minute)
		assert.Equal(t, limit, most, "all that are allowed, and no more")
		assert.Equal(t, 20, ran)
		assert.Zero(t, timer.pool.Running())
	})
}

func TestWorkersSurvivePanicAndGoexitInTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var recovered []any
		timer := newSystem(t, WithWorkers(1), WithShards(1), WithPanicHandler(func(v any, _ []byte) {
			mu.Lock()
			defer mu.Unlock()
			if recovered = append(recovered, v); len(recovered) == 2 {
				runtime.Goexit() // a panic handler may call Goexit too
			}
		}))
		var others []*testTask
		for i := range 60 {
			switch i % 20 {
			case 5:
				addIn(t, timer, newTask(func() { panic("task") }), time.Second)
			case 11:
				addIn(t, timer, newTask(runtime.Goexit), time.Second)
			default:
				tt := newTask(nil)
				others = append(others, tt)
				addIn(t, timer, tt, time.Second)
			}
		}
		later := newTask(nil)
		addIn(t, timer, later, time.Minute)
		settle(time.Second)
		for i, tt := range others {
			assert.EqualValues(t, 1, tt.runs.Load(), "task %d of the same tick", i)
		}
		settle(time.Hour)
		assert.EqualValues(t, 1, later.runs.Load())
		assert.Equal(t, []any{"task", "task", "task"}, recovered)
		assert.True(t, timer.Idle(), "no worker counts as running")
	})
}

func TestOverloadedShardDoesNotStarveTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newSystem(t, WithWorkers(1), WithShards(4))
		for shard := range uint32(3) {
			for range 3 * runLength { // each task adds itself again, due at once
				var tt *testTask
				tt = newTask(func() { _ = timer.AddAt(&tt.TaskEntry, timer.Now(), 0) })
				tt.inShard(int(shard))
				addIn(t, timer, tt, time.Second)
			}
		}
		done := make(chan struct{})
		last := newTask(func() { close(done) })
		last.inShard(3)
		addIn(t, timer, last, time.Second)
		<-done
		timer.Stop()
	})
}

// A worker runs up to 32 entries of a shard, and then those of another one.
func TestAWorkerTakesTheShardsInTurn(t *testing.T) {
	for n, want := range map[int][]int{31: {31, 31}, 32: {32, 32}, 33: {32, 32, 1, 1}, 65: {32, 32, 32, 32, 1, 1}} {
		m := newManual(t, WithShards(2))
		var runs []int // of entries of one shard, one after the other
		last := -1
		for i := range 2 * n {
			tt := newTask(func() {
				if i%2 != last {
					last, runs = i%2, append(runs, 0)
				}
				runs[len(runs)-1]++
			})
			tt.inShard(i % 2)
			addIn(t, m, tt, time.Second)
		}
		m.AdvanceClock(time.Second)
		assert.Equal(t, want, runs, "%d entries in each", n)
	}
}

// A worker that finds nothing but extended entries puts chunk of them back, and then releases the lock.
func TestAWorkerPutsABoundedNumberOfExtendedEntriesBack(t *testing.T) {
	for _, left := range []int{0, 1, 3} {
		m := newManual(t)
		var s *shard
		for range chunk + left {
			tt := newTask(nil)
			addIn(t, m, tt, 0)
			require.True(t, m.Extend(&tt.TaskEntry, time.Minute))
			s = m.shardOf(&tt.entry)
		}
		require.Len(t, listOf(t, &s.mu.due), chunk+left)
		s.mu.Lock()
		e, _ := m.popLocked(s)
		s.mu.Unlock()
		assert.Nil(t, e)
		assert.Len(t, listOf(t, &s.mu.due), left)
	}
}

// slog's default logger, which logs panics if nobody else does, may block: no worker waits for it, and not the goroutine that moves a
// manual clock. It gets up to ten panics of a second, and is told how many more there were.
func TestADefaultLoggerThatBlocksHoldsUpNoTask(t *testing.T) {
	const panics, logged = 300, 10
	defer slog.SetDefault(slog.Default())
	for name, open := range map[string]func(t *testing.T) (on Timer, pass func(d time.Duration)){
		"SystemTimer": func(t *testing.T) (Timer, func(d time.Duration)) { return newSystem(t, WithWorkers(1)), settle },
		"ManualTimer": func(t *testing.T) (Timer, func(d time.Duration)) {
			m := newManual(t)
			return m, func(d time.Duration) { settle(d); m.AdvanceClock(d) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				goOn := make(chan struct{})
				slog.SetDefault(slog.New(slow{slog.NewTextHandler(&log, nil), goOn}))
				timer, pass := open(t)
				addIn(t, timer, newTask(func() { panic("in hand") }), time.Second)
				pass(2 * time.Second)
				synctest.Wait()
				for range panics {
					addIn(t, timer, newTask(func() { panic("task") }), time.Second)
				}
				later := newTask(nil)
				addIn(t, timer, later, time.Minute)
				pass(time.Hour)
				assert.EqualValues(t, 1, later.runs.Load())
				assert.Empty(t, log.String())
				close(goOn)
				synctest.Wait()
				assert.Equal(t, logged, strings.Count(log.String(), "panic=task"))
				assert.Equal(t, 1+logged, strings.Count(log.String(), "level=ERROR"))
				addIn(t, timer, newTask(func() { panic("the last one") }), time.Second)
				pass(2 * time.Second)
				synctest.Wait()
				assert.Equal(t, 1, strings.Count(log.String(), "suppressed=290\n"))
			})
		})
	}
}
