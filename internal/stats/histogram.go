package stats

import (
	"math"
	"math/bits"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
)

// NumBuckets is the number of buckets of a Histogram.
const NumBuckets = 24

// Units of histograms. Bucket i counts durations from unit·2^(i-1), exclusive, to unit·2^i,
// inclusive. The first bucket begins at 0, and the last one has no upper bound. The
// bounds are powers of two of a unit, so that a division by a constant and a count of
// bits find the bucket.
const (
	WaitUnit = time.Millisecond       // the bounds are 1 ms, 2 ms, 4 ms, and so on up to 4,194 s
	LateUnit = 125 * time.Microsecond // the bounds are 125 µs, 250 µs, and so on up to 524 s
)

// Histogram counts durations in buckets with fixed bounds, each twice the one before.
// The bounds for waits and ages begin at 1 ms and end at 4,194 s; those for lateness begin
// at 125 µs and end at 524 s. The zero value is empty.
type Histogram struct {
	// Counts[i] is the number of durations over Bound(i-1) and up to Bound(i). The last
	// is the number of those over all bounds.
	Counts [NumBuckets]int64
	// Sum is the sum of all durations in seconds, each rounded down to a microsecond.
	Sum float64

	// micros counts what addTo makes Sum of. A sum in nanoseconds would overflow after 300 million
	// waits of 30 s.
	micros int64
	unit   time.Duration
}

// add counts n durations d in a histogram of unit.
func (h *Histogram) add(d, unit time.Duration, n int64) {
	h.Counts[bucket(d, unit)] += n
	h.micros += n * int64(max(d, 0)/time.Microsecond)
}

// bucket returns the bucket of d in a histogram of unit. It is inlined where unit is a
// constant, so that it divides by a constant.
func bucket(d, unit time.Duration) int {
	return min(bits.Len64(uint64(max(d, 1)-1)/uint64(unit)), NumBuckets-1)
}

func (h *Histogram) addTo(sum *Histogram) {
	for i, n := range h.Counts {
		sum.Counts[i] += n
	}
	sum.micros += h.micros
	sum.Sum = float64(sum.micros) / 1e6
}

// Bound returns the upper bound, inclusive, of the i-th bucket. The bound of the last
// bucket is math.MaxInt64.
func (h Histogram) Bound(i int) time.Duration {
	if i >= NumBuckets-1 {
		return math.MaxInt64
	}
	return max(h.unit, 1) << i
}

// Count returns the number of durations in the histogram.
func (h Histogram) Count() (n int64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Quantile returns the bound of the bucket in which the q-quantile lies, for q from 0 to
// 1: the q-quantile is at most that bound, and over half of it. Quantile returns 0 if the
// histogram is empty, and math.MaxInt64 if the q-quantile lies over all bounds.
func (h Histogram) Quantile(q float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	rank := max(int64(math.Ceil(q*float64(n))), 1)
	for i, c := range h.Counts {
		if rank -= c; rank <= 0 {
			return h.Bound(i)
		}
	}
	return h.Bound(NumBuckets - 1)
}

// Since returns the durations that were added to the histogram after before, an earlier
// snapshot of it, was taken.
func (h Histogram) Since(before *Histogram) Histogram {
	for i, c := range before.Counts {
		h.Counts[i] -= c
	}
	h.Sum -= before.Sum
	return h
}

// Times has the ages, waits and lateness of the operations of a shard. It is not safe for
// concurrent use: the shard's lock guards it.
type Times struct {
	ages   ages                           // of pending operations
	Waited [machine.NumOutcomes]Histogram // time from start to end of ended operations, by outcome; that of Pending is unused
	Late   Histogram                      // time from the deadline to the end of expired operations
}

// NewTimes returns empty Times, to which those of shards are to be added.
func NewTimes() *Times {
	t := new(Times)
	for o := range t.Waited {
		t.Waited[o].unit = WaitUnit
	}
	t.Late.unit = LateUnit
	return t
}

// AddTo adds t to sum.
func (t *Times) AddTo(sum *Times) {
	t.ages.addTo(&sum.ages)
	for o := range t.Waited {
		t.Waited[o].addTo(&sum.Waited[o])
	}
	t.Late.addTo(&sum.Late)
}

// Ages returns the age of the oldest pending operation, and the ages of all as a
// histogram of WaitUnit. Each age is too high by at most 4/63 of it or 16.8 ms,
// whichever is more. Call it on the sum over all shards.
func (t *Times) Ages(now time.Duration) (oldest time.Duration, all Histogram) {
	var counted Histogram
	t.ages.each(func(_ int, start int64, n int32) {
		if n <= 0 { // operations started or ended while the shards were being summed
			return
		}
		age := max(now-time.Duration(start), 0)
		oldest = max(oldest, age)
		counted.add(age, WaitUnit, int64(n))
	})
	all.unit = WaitUnit
	counted.addTo(&all)
	return oldest, all
}
