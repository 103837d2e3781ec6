package timer

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newWheel(size int, now int64) *timingWheel {
	w := &timingWheel{}
	w.init(int64(size), now)
	return w
}

// The examples of the specification use one wheel with a tick of 20 ms. Here that wheel is
// level 1 of a hierarchy of size 20, in ticks of 1 ms.
func TestWheelWorkedExamples(t *testing.T) {
	t.Run("start 43 ms and tick 20 ms give current time 40 ms", func(t *testing.T) {
		w := newWheel(20, 43)
		assert.EqualValues(t, 60, w.put(&entry.Entry{}, 43+20), "the bucket after that of 40 ms")
		assert.EqualValues(t, 59, w.put(&entry.Entry{}, 59), "the last tick of the bucket of 40 ms")
		assert.Len(t, w.levels, 2)
	})
	t.Run("with tick 20 ms an expiration of 237 ms lies in the bucket that expires at 220 ms", func(t *testing.T) {
		w := newWheel(20, 43)
		assert.EqualValues(t, 220, w.put(&entry.Entry{}, 237))
		_, first, level := w.next()
		assert.EqualValues(t, 220, first)
		assert.Equal(t, 1, level)
	})
	t.Run("with tick 1 ms and size 20, 4 levels cover 160 s", func(t *testing.T) {
		w := newWheel(20, 0)
		assert.EqualValues(t, 152_000, w.put(&entry.Entry{}, 160_000-1))
		assert.Len(t, w.levels, 4)
		assert.EqualValues(t, 160_000, w.put(&entry.Entry{}, 160_000))
		assert.Len(t, w.levels, 5)
	})
}

func TestWheelGrowsOnDemandToTheLastTick(t *testing.T) {
	for _, size := range []int{2, 3, 20, 64, 1000, maxWheelSize} {
		w := newWheel(size, 0)
		assert.Empty(t, w.levels, "size %d", size)
		first := w.put(&entry.Entry{}, math.MaxInt64-1)
		assert.Positive(t, first)
		assert.Less(t, len(w.levels), 64)
		checkWheel(t, w, func(*entry.Entry, int64, int64) {})
		_, got, _ := w.next()
		assert.Equal(t, first, got)
	}
}

func TestWheelHonoursEverySizeExactly(t *testing.T) {
	for size := 2; size <= 130; size++ {
		w := newWheel(size, 0)
		e := &entry.Entry{}
		w.put(e, int64(size)-1)
		assert.Len(t, w.levels, 1, "size %d: the last tick of the first round is of level 0", size)
		_, _, level := w.next()
		assert.Zero(t, level, "size %d: so it moves as a whole when it is due", size)
		e.Unlink()
		w.put(e, int64(size))
		assert.Len(t, w.levels, 2, "size %d: the next one is of level 1", size)
		assert.Len(t, w.levels[1].buckets, size)
	}
}

// TestWheelAgainstSortedTicks uses the wheel as a shard does, with clocks up to the largest
// tick, and compares the ticks that expire with a sorted slice.
func TestWheelAgainstSortedTicks(t *testing.T) {
	sizes := []int{2, 3, 5, 7, 8, 10, 16, 20, 63, 64, 65, 100, 128, 130, 512, 1000}
	starts := []int64{0, 1, 43, 1 << 20, 1<<40 + 12345, math.MaxInt64 / 2, math.MaxInt64 - 10_000}
	for _, size := range sizes {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			for i, start := range starts {
				sortedTicks(t, rand.New(rand.NewPCG(uint64(size), uint64(i))), size, start)
			}
		})
	}
}

func sortedTicks(t *testing.T, rng *rand.Rand, size int, start int64) {
	w := newWheel(size, start)
	ticks := map[*entry.Entry]int64{}
	check := func() {
		n := checkWheel(t, w, func(e *entry.Entry, number, span int64) {
			require.Equal(t, ticks[e]/span, number)
		})
		require.Equal(t, len(ticks), n)
	}
	for range 80 {
		switch rng.IntN(5) {
		case 0, 1, 2:
			e := &entry.Entry{}
			far := rng.Int64N(math.MaxInt64 - 1 - w.now)
			ticks[e] = w.now + 1 + far>>rng.IntN(63)
			w.put(e, ticks[e])
		case 3:
			for e := range ticks {
				e.Unlink()
				delete(ticks, e)
				break
			}
		case 4:
			to := w.now + rng.Int64N(math.MaxInt64-w.now)>>rng.IntN(63)
			require.Equal(t, expire(ticks, to), walk(t, w, ticks, to))
		}
		check()
	}
}

// expire removes the ticks up to now from the map and returns them, sorted.
func expire(ticks map[*entry.Entry]int64, now int64) (due []int64) {
	for _, tick := range ticks {
		if tick <= now {
			due = append(due, tick)
		}
	}
	slices.Sort(due)
	return due
}

// walk moves w to tick as a shard does, and returns the ticks at which entries were due.
func walk(t *testing.T, w *timingWheel, ticks map[*entry.Entry]int64, tick int64) (due []int64) {
	var spill entry.List
	spill.Init()
	for {
		bucket, first, _ := w.next()
		if first > tick {
			w.now = tick
			return due
		}
		require.Greater(t, first, w.now)
		w.now = first
		spill.Take(bucket)
		for !spill.Empty() {
			e := spill.First()
			e.Unlink()
			if ticks[e] <= first {
				due = append(due, first)
				delete(ticks, e)
				continue
			}
			w.put(e, ticks[e])
		}
	}
}

// One look for the next bucket passes over all that cancellations have emptied, and not again and again over the first.
func TestALookForTheNextBucketForgetsTheEmptyOnes(t *testing.T) {
	for _, here := range []int64{0, 1, 70, 198} {
		w := newWheel(200, here)
		all := make([]entry.Entry, 199-here)
		for i := range all {
			w.put(&all[i], here+1+int64(i))
		}
		last := len(all) - 1
		for i := range last {
			all[i].Unlink()
		}
		_, first, level := w.next()
		assert.Equal(t, []int64{199, 0}, []int64{first, int64(level)})
		filled := 0
		for _, word := range w.levels[0].filled {
			filled += bits.OnesCount64(word)
		}
		assert.Equal(t, 1, filled, "from %d", here)
		all[last].Unlink()
		bucket, _, _ := w.next()
		assert.Nil(t, bucket)
	}
}

// A look at a wheel of a million buckets, most of which cancellations have emptied: BenchmarkALookAtEmptyBuckets of
// 65,536 has to take 64 times as long as of 1,024, and not 4,096 times.
func BenchmarkALookAtEmptyBuckets(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 16, 1 << 20} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			w := newWheel(size, 0)
			w.put(&entry.Entry{}, int64(size-1))
			for b.Loop() {
				for i := range w.levels[0].filled {
					w.levels[0].filled[i] = math.MaxUint64
				}
				if _, at, _ := w.next(); at != int64(size-1) {
					b.Fatal(at)
				}
			}
		})
	}
}
