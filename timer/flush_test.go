package timer

import (
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In RussellLuo/timingwheel #53, a flush put entries back into the bucket that it was
// emptying.
func TestRussellLuo53AFlushMovesEntriesDown(t *testing.T) {
	m := newManual(t, WithWheelSize(4))
	s := m.shard(0)
	tt := newTask(nil)
	addIn(t, m, tt, 100*time.Millisecond)
	levelOf := func() int {
		_, _, level := s.mu.wheel.next()
		return level
	}
	levels := []int{levelOf()}
	for m.Now() < 100*time.Millisecond {
		m.AdvanceClock(time.Millisecond)
		if tt.entry.Linked() {
			if l := levelOf(); l != levels[len(levels)-1] {
				levels = append(levels, l)
			}
		}
	}
	assert.Equal(t, []int{3, 2, 1}, levels, "100 is 1210 in base 4: one level lower each time, due from level 1")
	assert.EqualValues(t, 1, tt.runs.Load())
}

// In RussellLuo/timingwheel #31, Stop during a flush had no effect. Here entries are in an
// overflow bucket that has expired, between two chunks of a flush, and are cancelled and
// extended there.
func TestRussellLuo31CancelTakesEffectDuringAFlush(t *testing.T) {
	m := newManual(t)
	s := m.shard(0)
	tasks := make([]*testTask, 3*chunk)
	for i := range tasks {
		tasks[i] = newTask(nil)
		addIn(t, m, tasks[i], time.Minute)
	}
	m.AdvanceClock(youngFor) // places the young entries
	m.setClock(time.Minute)
	s.mu.Lock()
	require.True(t, s.flushLocked(int64(time.Minute)))
	left := halfWay(t, s)
	s.mu.Unlock()
	require.Greater(t, len(left), 10)
	task := func(i int) *testTask { return taskOf(left[i]).(*testTask) }
	assert.True(t, m.Cancel(taskEntry(left[0])))
	assert.True(t, m.Cancel(taskEntry(left[5])))
	assert.True(t, m.Cancel(taskEntry(left[len(left)-1])))
	assert.True(t, m.Extend(taskEntry(left[1]), time.Hour))
	assert.True(t, m.Extend(taskEntry(left[2]), time.Second))
	added := newTask(nil)
	addIn(t, m, added, time.Second)
	m.AdvanceClock(time.Second)
	for _, i := range []int{0, 5, len(left) - 1, 1} {
		assert.Zero(t, task(i).runs.Load(), "entry %d", i)
	}
	assert.EqualValues(t, 1, task(2).runs.Load())
	assert.EqualValues(t, 1, added.runs.Load())
	checkInvariants(t, &m.store, nil)
	m.AdvanceClock(time.Hour)
	assert.EqualValues(t, 1, task(1).runs.Load())
	assert.Zero(t, m.Pending())
}

// A goroutine that adds an entry while the driver is late does not move the wheel past
// buckets that are to be flushed.
func TestAddingDoesNotSkipDueBuckets(t *testing.T) {
	for _, second := range []time.Duration{2 * ms, 2 * time.Second, time.Minute} {
		m := newManual(t)
		first := newTask(nil)
		addIn(t, m, first, 10*ms)
		m.setClock(20 * ms)
		tt := newTask(nil)
		addIn(t, m, tt, second)
		checkInvariants(t, &m.store, nil)
		m.AdvanceClock(0)
		assert.EqualValues(t, 1, first.runs.Load(), "then something with %s was added", second)
		m.AdvanceClock(second)
		assert.EqualValues(t, 1, tt.runs.Load())
	}
}

// halfWay returns the entries of the bucket that a flush is emptying.
func halfWay(t *testing.T, s *shard) []*entry.Entry {
	return listOf(t, &s.mu.spill)
}

// spied is a clock whose calls a test sees.
type spied struct {
	clock
	now    func() time.Duration
	needed func(tick int64)
}

func (s spied) read() time.Duration { return s.now() }
func (s spied) need(tick int64)     { s.needed(tick) }

// A flush has looked at a shard, and an entry that is due by the flush's time is added there.
func TestAnEntryAddedBehindAFlushIsLeftToTheNext(t *testing.T) {
	m := newManual(t, WithShards(2))
	behind, due := newTask(nil), newTask(nil)
	behind.inShard(0)
	due.inShard(1)
	addIn(t, m, due, ms)
	m.clock = spied{m, m.read, func(int64) {
		m.clock = m
		addIn(t, m, behind, 2*ms)
	}}
	assert.True(t, m.flush(time.Second))
	assert.Equal(t, 1, dueOf(t, &m.store))
	assert.EqualValues(t, 2*ms, m.next(), "so that the next flush comes at once")
	assert.True(t, m.flush(time.Second))
	assert.Equal(t, 2, dueOf(t, &m.store))
	m.Stop()
}

// A flush moves at most chunk entries of an overflow bucket, and at most chunk buckets of the
// lowest level, before it releases the lock.
func TestAFlushHoldsTheLockForAChunkAtMost(t *testing.T) {
	for name, c := range map[string]struct{ first, apart time.Duration }{
		"entries of an overflow bucket": {2048, 0},
		"buckets of the lowest level":   {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newManual(t, WithTick(1), WithWheelSize(1024))
			for i := range 2 * chunk {
				addIn(t, m, newTask(nil), c.first+time.Duration(i)*c.apart)
			}
			s := m.shard(0)
			require.True(t, s.flushLocked(2048))
			assert.InDelta(t, chunk-1, len(listOf(t, &s.mu.due)), 1, "one step may have taken the bucket")
			m.Stop()
		})
	}
}

func TestStopReturnsEntriesThatAFlushIsMoving(t *testing.T) {
	m := newManual(t)
	var want []any
	for range 2 * chunk {
		tt := newTask(nil)
		addIn(t, m, tt, 100*time.Millisecond)
		want = append(want, tt)
	}
	s := m.shard(0)
	require.True(t, s.flushLocked(int64(100*ms)))
	require.NotEmpty(t, halfWay(t, s))
	assert.ElementsMatch(t, want, m.Stop())
	assert.Zero(t, m.Pending())
	checkInvariants(t, &m.store, nil)
}

// Kafka's timer holds its write lock while it inserts a bucket of an overflow wheel again, and
// additions wait for it. A flush here releases the lock between two chunks.
func TestKafkaAFlushReleasesTheLockBetweenChunks(t *testing.T) {
	m := newManual(t, WithTick(1), WithWheelSize(1024))
	s := m.shard(0)
	for i := range 10 * chunk { // half of them in one overflow bucket, the others in buckets of the lowest level
		addIn(t, m, newTask(nil), 2048+time.Duration(i%chunk))
		addIn(t, m, newTask(nil), 1+time.Duration(i)%1023)
	}
	holds := 0
	for more := true; more; holds++ {
		before := m.Pending()
		more = s.flushLocked(5000)
		require.Equal(t, before, m.Pending())
		require.LessOrEqual(t, len(listOf(t, &s.mu.due)), 20*chunk)
	}
	assert.GreaterOrEqual(t, holds, (1023+10*chunk)/chunk)
	t.Run("CancelAll takes effect too", func(t *testing.T) {
		var entries []*TaskEntry
		for range 3*chunk + 1 {
			tt := newTask(nil)
			addIn(t, m, tt, time.Hour)
			entries = append(entries, &tt.TaskEntry)
		}
		assert.Len(t, entries, m.CancelAll(entries))
	})
}
