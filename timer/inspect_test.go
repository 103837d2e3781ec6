package timer

import (
	"math/bits"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func addEntries(t *testing.T, m *ManualTimer, n int, deadline time.Duration) {
	t.Helper()
	for range n {
		require.NoError(t, m.AddAt(&newBenchTask().TaskEntry, m.Now(), deadline))
	}
}

func TestInspectShowsEntriesInTheirSlots(t *testing.T) {
	m, err := NewManualTimer()
	require.NoError(t, err)
	m.AdvanceClock(10 * time.Millisecond)
	addEntries(t, m, 3, 20*time.Millisecond)
	addEntries(t, m, 5, 200*time.Millisecond)
	addEntries(t, m, 1, 10*time.Millisecond) // due at once
	addEntries(t, m, 2, 64*time.Millisecond)
	w := Inspect(m)
	assert.Equal(t, 11, w.Pending)
	assert.Equal(t, 1, w.Due)
	assert.Equal(t, 64, w.Size)
	require.Len(t, w.Levels, 2)
	require.Len(t, w.Levels[0].Slots, 64)
	assert.Equal(t, Slot{Entries: 2}, w.Levels[0].Slots[0])
	assert.Equal(t, 10, w.Levels[0].Hand)
	assert.Equal(t, Slot{Entries: 3}, w.Levels[0].Slots[20])
	assert.Equal(t, time.Millisecond, w.Levels[0].Span)
	assert.Equal(t, Slot{Entries: 5}, w.Levels[1].Slots[200/64])
	assert.Equal(t, 64*time.Millisecond, w.Levels[1].Span)
	m.Stop()
}

// Because of the phases of the wheels, entries with the same deadline are in different buckets
// in different shards. Inspect shows each bucket in the slot in which it expires.
func TestInspectShowsEachBucketWhereItExpires(t *testing.T) {
	m, err := NewManualTimer(WithShards(16))
	require.NoError(t, err)
	m.AdvanceClock(time.Second)
	const n = 160
	entries := make([]benchTask, n)
	for i := range entries {
		entries[i].Bind(&entries[i])
		entries[i].inShard(i)
		require.NoError(t, m.AddAt(&entries[i].TaskEntry, time.Second, 1200*time.Millisecond))
	}
	w := Inspect(m)
	require.Len(t, w.Levels, 2)
	assert.Equal(t, 1000/64, w.Levels[1].Hand)
	early, late := w.Levels[1].Slots[1200/64-1].Entries, w.Levels[1].Slots[1200/64].Entries
	assert.Equal(t, n, early+late, "a bucket expires when its first tick does, less than 64 ticks before")
	assert.Equal(t, []int{30, 130}, []int{early, late}, "the wheel of the i-th shard is 4 i ticks ahead")
	m.Stop()

	m = newManual(t, WithShards(2), WithWheelSize(10)) // the wheel of shard 1 is 55 ticks ahead
	tt := newTask(nil)
	tt.inShard(1)
	addIn(t, m, tt, 7*time.Millisecond)
	assert.Equal(t, Slot{Entries: 1}, Inspect(m).Levels[0].Slots[7])
	m.Stop()
}

func TestInspectFoldsLargeWheels(t *testing.T) {
	m, err := NewManualTimer(WithWheelSize(1000))
	require.NoError(t, err)
	addEntries(t, m, 2, 999*time.Millisecond)
	w := Inspect(m)
	require.Len(t, w.Levels[0].Slots, 63)
	assert.Equal(t, 16*time.Millisecond, w.Levels[0].Span)
	assert.Equal(t, 2, w.Levels[0].Slots[62].Entries)
	m.Stop()
}

// sum returns the number of entries in all slots of w and among the young.
func (w *Wheels) sum() (n int) {
	for _, l := range w.Levels {
		for _, s := range l.Slots {
			n += s.Entries
		}
	}
	return n + w.Young.Entries
}

// Inspect counts a part of the entries and estimates the rest; the total is exact.
func TestInspectEstimatesWhatItDoesNotCount(t *testing.T) {
	m, err := NewManualTimer()
	require.NoError(t, err)
	const n = 200_000
	tasks := make([]benchTask, n)
	for i := range tasks {
		tasks[i].Bind(&tasks[i])
		require.NoError(t, m.AddAt(&tasks[i].TaskEntry, 0, time.Duration(1+i)*time.Millisecond))
	}
	w := Inspect(m)
	assert.True(t, w.Young.Estimated)
	assert.Equal(t, n, w.sum())
	m.AdvanceClock(youngFor)
	w = Inspect(m)
	assert.Zero(t, w.Young)
	estimated := 0
	for _, l := range w.Levels {
		for _, s := range l.Slots {
			if s.Estimated {
				estimated++
			}
		}
	}
	assert.Equal(t, n-1000, w.Pending, "1,000 tasks have run")
	assert.Equal(t, w.Pending, w.sum()+w.Due)
	assert.Positive(t, estimated, "buckets of 4,096 entries are not walked to the end")
	m.Stop()
}

// Inspect counts up to 128 entries of a bucket.
func TestInspectEstimatesPartlyCountedBuckets(t *testing.T) {
	m := newManual(t)
	addEntries(t, m, chunk, 20*ms)
	addEntries(t, m, chunk+1, 30*ms)
	slots := Inspect(m).Levels[0].Slots
	assert.Equal(t, Slot{Entries: chunk}, slots[20])
	assert.Equal(t, Slot{Entries: chunk + 1, Estimated: true}, slots[30])
	addEntries(t, m, 2*chunk, 40*ms)
	addEntries(t, m, 5, 0)
	slots = Inspect(m).Levels[0].Slots
	assert.Equal(t, []int{chunk + 64, chunk + 65}, []int{slots[30].Entries, slots[40].Entries}, "129 were not counted")
	m.Stop()
}

// Inspect counts up to 1,024 entries of a shard. Then it only looks which slots hold any: the
// rest is shared evenly between these.
func TestInspectCountsAThousandEntriesOfAShard(t *testing.T) {
	const size, fold, entries = 2000, 32, 20 // a slot holds 32 buckets, and the last one 16
	full := func(slot int) bool { return slot%3 == 2 }
	empty := func(slot int) bool { return slot%3 == 1 }
	for shard, counted := range []int{2, 32} { // the wheel of shard 1 is half a round ahead
		m := newManual(t, WithWheelSize(size), WithShards(2))
		for i := 1; i < size; i++ {
			if empty(i/fold) || !full(i/fold) && i%fold > 1 { // of some slots only the first buckets hold entries
				continue
			}
			for range entries {
				tt := newTask(nil)
				tt.inShard(shard)
				addIn(t, m, tt, time.Duration(i)*ms)
			}
		}
		w := Inspect(m)
		assert.Equal(t, w.Pending, w.sum())
		slots := w.Levels[0].Slots
		for i, slot := range slots {
			assert.Equal(t, !empty(i), slot.Entries > 0, "slot %d", i)
		}
		assert.Equal(t, Slot{Entries: fold * entries}, slots[counted])
		assert.True(t, slots[59].Estimated)
		assert.InDelta(t, slots[59].Entries, slots[60].Entries, 1, "32 buckets and 2, but it looked at one of each")
		assert.InDelta(t, slots[59].Entries, slots[62].Entries, 1)
		m.Stop()
	}
}

// Inspect and Due count up to 128 due entries of a shard.
func TestInspectGivesALowerBoundOfDueEntries(t *testing.T) {
	m := newManual(t)
	addEntries(t, m, chunk-1, 0)
	assert.Equal(t, chunk-1, Inspect(m).Due)
	addEntries(t, m, 2, 0)
	w := Inspect(m)
	assert.Equal(t, chunk, w.Due)
	assert.Equal(t, chunk+1, w.Pending)
	n, _ := Due(m)
	assert.Equal(t, chunk, n)
	m.Stop()
}

func TestInspectShowsEntriesHalfWayDownInTheirSlot(t *testing.T) {
	m := newManual(t)
	addEntries(t, m, chunk+20, 100*time.Millisecond)
	s := m.shard(0)
	require.True(t, s.flushLocked(100), "it stops half-way down")
	left := len(halfWay(t, s))
	m.mu.now = 100 * time.Millisecond
	w := Inspect(m)
	assert.Equal(t, left, w.Levels[1].Slots[w.Levels[1].Hand].Entries)
	assert.Equal(t, chunk+20, w.Pending)
	m.Stop()
}

// The young entries of a shard get their share of the entries that were not counted, as one
// bucket does.
func TestInspectCountsYoungEntriesAsOneBucket(t *testing.T) {
	m := newManual(t)
	addEntries(t, m, chunk, time.Minute)
	addEntries(t, m, 1, time.Second)
	assert.Equal(t, Slot{Entries: chunk}, Inspect(m).Young)
	addEntries(t, m, 1000, time.Minute)
	assert.Equal(t, Slot{Entries: chunk + 1000, Estimated: true}, Inspect(m).Young)
	addEntries(t, m, 300, 2*time.Second)
	w := Inspect(m)
	assert.Equal(t, Slot{Entries: chunk + (1000+300-chunk)/2, Estimated: true}, w.Young)
	assert.Equal(t, w.Pending, w.sum())
	m.Stop()
}

// The span of a slot that holds several buckets saturates at Never.
func TestInspectSaturatesSpansAtNever(t *testing.T) {
	m := newManual(t, WithWheelSize(1000))
	addEntries(t, m, 1, Never)
	assert.Equal(t, Slot{Entries: 1}, Inspect(m).Young)
	m.AdvanceClock(youngFor)
	levels := Inspect(m).Levels
	require.Len(t, levels, 5)
	assert.Equal(t, 16_000_000_000*time.Millisecond, levels[3].Span)
	assert.InDelta(t, Never, levels[4].Span, float64(16*time.Millisecond))
	m.Stop()

	const tick = Never / 64
	m = newManual(t, WithTick(tick))
	addEntries(t, m, 1, Never)
	m.AdvanceClock(tick)
	assert.Equal(t, 64*tick, Inspect(m).Levels[1].Span, "the longest that is not longer than Never")
	m.Stop()
}

// At time 0, too, an entry is due whose deadline had passed when it was added.
func TestDueCountsWhatWasDueWhenItWasAdded(t *testing.T) {
	for _, deadline := range []time.Duration{0, -1, -time.Hour} {
		m, err := NewManualTimer()
		require.NoError(t, err)
		addEntries(t, m, 1, deadline)
		n, _ := Due(m)
		assert.Equal(t, 1, n, "deadline %v", deadline)
		assert.Equal(t, 1, Inspect(m).Due)
	}
	// Of several, in two shards, the oldest may be any.
	m := newManual(t, WithShards(2))
	m.AdvanceClock(10 * time.Second)
	for i, late := range []time.Duration{2, 7, 3, 1, 4, 2} {
		tt := newTask(nil)
		tt.inShard(i / 3)
		require.NoError(t, m.AddAt(&tt.TaskEntry, m.Now(), m.Now()-late*time.Second))
		n, oldest := Due(m)
		assert.Equal(t, i+1, n)
		assert.Equal(t, []time.Duration{2, 7, 7, 7, 7, 7}[i]*time.Second, oldest)
	}
	m.Stop()
	n, oldest := Due(m)
	assert.Equal(t, []time.Duration{0, 0}, []time.Duration{time.Duration(n), oldest})
}

// Those that are due are in no bucket any more, also where there are too many to count.
func TestInspectShowsNoDueEntryInABucket(t *testing.T) {
	m := newManual(t)
	addEntries(t, m, 10_000, 0)
	addEntries(t, m, chunk+1, 30*ms)
	w := Inspect(m)
	assert.Equal(t, []int{10_000 + chunk + 1, chunk}, []int{w.Pending, w.Due})
	assert.Less(t, w.Levels[0].Slots[30].Entries, 10_000)
	addEntries(t, m, chunk+1, 40*ms)
	slots := Inspect(m).Levels[0].Slots
	assert.Equal(t, slots[30], slots[40], "each of three lists has a third of what was not counted")
	m.Stop()
}

// What Inspect finds empty it does not look at again.
func TestInspectForgetsEmptyBuckets(t *testing.T) {
	m, err := NewManualTimer(WithShards(1))
	require.NoError(t, err)
	all := make([]*TaskEntry, 50)
	for i := range all {
		all[i] = &newBenchTask().TaskEntry
		require.NoError(t, m.AddAt(all[i], 0, time.Duration(i+1)*ms))
	}
	for _, e := range all[10:40] {
		require.True(t, m.Cancel(e))
	}
	w := Inspect(m)
	shown := 0
	for _, slot := range w.Levels[0].Slots {
		shown += slot.Entries
	}
	assert.Equal(t, 20, shown)
	for s := range m.made {
		filled := 0
		for _, word := range s.mu.wheel.levels[0].filled {
			filled += bits.OnesCount64(word)
		}
		assert.Equal(t, 20, filled)
	}
	assert.Len(t, m.Stop(), 20)
}

// Stop goes once through the buckets of a wheel, also of a big one.
func BenchmarkStopOfABigWheel(b *testing.B) {
	for _, n := range []int{1 << 14, 1 << 16, 1 << 18} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				m, _ := NewManualTimer(WithShards(1), WithWheelSize(n))
				for i := range n - 1 {
					_ = m.AddAt(&newBenchTask().TaskEntry, 0, time.Duration(i+1)*ms)
				}
				b.StartTimer()
				if left := len(m.Stop()); left != n-1 {
					b.Fatal(left)
				}
			}
		})
	}
}
