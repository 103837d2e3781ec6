package stats

import (
	"math"
	"math/bits"
	"time"
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
	// Sum is the sum of all durations in seconds.
	Sum float64

	unit time.Duration // 0 in histograms that only counts are added to
}

// add counts n durations d in a histogram of unit.
func (h *Histogram) add(d, unit time.Duration, n int64) {
	h.Counts[bucket(d, unit)] += n
	h.Sum += float64(n) * float64(max(d, 0)) / 1e9
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
	sum.Sum += h.Sum
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
