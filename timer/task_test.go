package timer

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testTask is an entry with a task that counts its runs and then calls f, unless f is nil.
type testTask struct {
	TaskEntry
	runs atomic.Int32
	f    func()
}

func (tt *testTask) RunTask(*TaskEntry) {
	tt.runs.Add(1)
	if tt.f != nil {
		tt.f()
	}
}

func newTask(f func()) *testTask {
	tt := &testTask{f: f}
	tt.Bind(tt)
	return tt
}

// Deadline returns what DeadlineOf does, without the lock that guards it.
func (e *TaskEntry) Deadline() time.Duration { return e.entry.Deadline() }

// stateOf returns the state of h.
func stateOf(h *Handle) string {
	switch {
	case h.Cancelled():
		return "cancelled"
	case h.Expired():
		return "expired"
	}
	return "pending"
}

// inShard assigns e, which is not scheduled, to the i-th shard.
func (e *TaskEntry) inShard(i int) { e.entry.Word.Store(uint64(i) & (maxShards - 1)) }

func newManual(t testing.TB, opts ...Option) *ManualTimer {
	t.Helper()
	m, err := NewManualTimer(opts...)
	require.NoError(t, err)
	return m
}

// addIn schedules tt to expire d from now.
func addIn(t testing.TB, timer Timer, tt *testTask, d time.Duration) {
	t.Helper()
	now := timer.(clock).read()
	require.NoError(t, timer.Entries().AddAt(&tt.TaskEntry, now, Deadline(now, d)))
}

func TestDeadlineSaturates(t *testing.T) {
	for _, c := range []struct{ now, timeout, want time.Duration }{
		{0, 0, 0},
		{0, -5, 0},
		{0, 1, 1},
		{10, 5, 15},
		{10, -5, 10},
		{10, math.MinInt64, 10},
		{0, math.MaxInt64, Never},
		{10, math.MaxInt64, Never},
		{10, math.MaxInt64 - 10, Never},
		{10, math.MaxInt64 - 11, Never},
		{10, math.MaxInt64 - 12, Never - 1},
		{Never, 0, Never},
		{Never, 1, Never},
	} {
		assert.Equal(t, c.want, Deadline(c.now, c.timeout), "Deadline(%d, %d)", c.now, c.timeout)
	}
}

func TestEntryReportsItsDeadline(t *testing.T) {
	m := newManual(t)
	tt := newTask(nil)
	assert.Zero(t, tt.Deadline(), "never added")
	addIn(t, m, tt, time.Second)
	assert.Equal(t, time.Second, tt.Deadline(), "scheduled")
	m.AdvanceClock(time.Second)
	assert.Equal(t, time.Second, tt.Deadline(), "expired")
	addIn(t, m, tt, time.Second)
	m.Cancel(&tt.TaskEntry)
	assert.Zero(t, tt.Deadline(), "cancelled")
}

func TestTimersDoNotTouchAnOperationsState(t *testing.T) {
	const upper = uint64(math.MaxUint32) << 32
	m := newManual(t, WithMaxPending(1))
	full := newTask(nil)
	addIn(t, m, full, time.Second)
	tt := newTask(nil)
	tt.inShard(1)
	assert.Zero(t, tt.entry.Word.Load()&upper)
	tt.entry.Word.Or(upper)
	before := tt.entry.Word.Load()
	assert.ErrorIs(t, m.AddAt(&tt.TaskEntry, 0, 1), ErrFull)
	assert.Equal(t, before, tt.entry.Word.Load(), "a refused entry belongs to no timer, and stays in its shard")
	m.Cancel(&full.TaskEntry)
	addIn(t, m, tt, time.Second)
	m.Extend(&tt.TaskEntry, 2*time.Second)
	m.AdvanceClock(2 * time.Second)
	addIn(t, m, tt, time.Second)
	m.Cancel(&tt.TaskEntry)
	assert.Equal(t, upper, tt.entry.Word.Load()&upper)
}

// The entries of a page share a shard. Those of many pages are spread over all shards, and those of pages that follow one
// another are in different ones, whatever their addresses. (By a product's lower bits each ninth page would be in the same
// one of 16.)
func TestEntriesAreSpreadOverTheShardsByPages(t *testing.T) {
	memory := make([][8192 / unsafe.Sizeof(TaskEntry{})]TaskEntry, 8192)
	for i := range memory {
		page, changes := &memory[i], 0
		for j := range page {
			page[j].Bind(newTask(nil))
			if j > 0 && page[j].entry.Shard(maxShards) != page[j-1].entry.Shard(maxShards) {
				changes++
			}
		}
		require.LessOrEqual(t, changes, 1, "a block of 8 KiB spans at most two pages")
	}
	for shards := 4; shards <= maxShards; shards *= 2 {
		count, seen := make([]int, shards), map[int]bool{}
		for i := range memory {
			shard := memory[i][0].entry.Shard(shards)
			count[shard]++
			if seen[shard] = true; (i+1)%shards == 0 {
				require.GreaterOrEqual(t, len(seen), shards*5/8, "of %d", shards)
				clear(seen)
			}
		}
		assert.LessOrEqual(t, slices.Max(count), 2*len(memory)/shards)
		assert.NotZero(t, slices.Min(count))
	}
}

func TestAddAtErrors(t *testing.T) {
	m := newManual(t, WithMaxPending(2))
	require.ErrorIs(t, m.AddAt(&TaskEntry{}, 0, 1), ErrInvalid)
	a, b, c := newTask(nil), newTask(nil), newTask(nil)
	addIn(t, m, a, time.Second)
	require.ErrorIs(t, m.AddAt(&a.TaskEntry, 0, 1), ErrInvalid)
	assert.Equal(t, time.Second, a.Deadline(), "a refused Add leaves the entry as it was")
	addIn(t, m, b, time.Second)
	err := m.AddAt(&c.TaskEntry, 0, 1)
	require.ErrorIs(t, err, ErrFull)
	assert.ErrorContains(t, err, "2")
	assert.False(t, m.Cancel(&c.TaskEntry))
	m.Cancel(&a.TaskEntry)
	addIn(t, m, c, time.Second)
	m.AdvanceClock(time.Second)
	addIn(t, m, a, time.Second)
	addIn(t, m, b, time.Second)
	assert.Len(t, m.Stop(), 2)
	require.ErrorIs(t, m.AddAt(&c.TaskEntry, 0, 1), ErrStopped)
	assert.Empty(t, m.Stop())
	checkInvariants(t, &m.store, nil)
}

func TestCancelAllCountsWhatItCancelled(t *testing.T) {
	m := newManual(t, WithShards(4), WithMaxPending(10_000))
	var entries []*TaskEntry
	for i := range 1000 {
		tt := newTask(nil)
		tt.inShard(i / 300) // runs of 300 entries of a shard, longer than a chunk
		addIn(t, m, tt, time.Duration(i)*time.Millisecond)
		entries = append(entries, &tt.TaskEntry)
	}
	// The first is cancelled already, the second belongs to no timer, and the third comes twice.
	require.True(t, m.Cancel(entries[0]))
	entries = slices.Insert(append(entries, entries[1]), 1, &TaskEntry{}, entries[1])
	assert.Equal(t, 999, m.CancelAll(entries))
	assert.Zero(t, m.CancelAll(entries))
	assert.Zero(t, m.CancelAll(nil))
	assert.Zero(t, m.Pending())
	checkInvariants(t, &m.store, nil)
	for _, e := range entries {
		require.True(t, e.entry.Next == nil && e.entry.Prev == nil && e.Deadline() == 0, "in no list, and without a deadline")
	}
	assert.False(t, m.AdvanceClock(time.Hour), "nothing ran")
}

// While several goroutines wait for the lock to cancel or extend an entry, another goroutine
// cancels it: all of them come too late.
func TestOneOfManyCancelsSucceeds(t *testing.T) {
	m := newManual(t)
	tt := newTask(nil)
	addIn(t, m, tt, time.Hour)
	s := m.shard(0)
	s.mu.Lock()
	var cancelled, extended atomic.Int32
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if m.Cancel(&tt.TaskEntry) {
				cancelled.Add(1)
			}
		})
		wg.Go(func() { cancelled.Add(int32(m.CancelAll([]*TaskEntry{&tt.TaskEntry}))) })
	}
	wg.Go(func() {
		if m.Extend(&tt.TaskEntry, time.Second) {
			extended.Add(1)
		}
	})
	for range 1000 {
		runtime.Gosched() // lets the other goroutines run until they wait for the lock
	}
	require.True(t, m.cancelLocked(s, &tt.entry))
	s.mu.Unlock()
	wg.Wait()
	assert.Zero(t, cancelled.Load())
	assert.Zero(t, extended.Load())
	assert.Zero(t, m.Pending())
	checkInvariants(t, &m.store, nil)
}
