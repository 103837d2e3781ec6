package purgatory

import (
	"math"
	"time"

	"github.com/delayedop/purgatory/internal/stats"
)

// HistogramBuckets is the number of buckets of a Histogram.
const HistogramBuckets = stats.NumBuckets

// Histogram counts durations in buckets with fixed bounds, each twice the one before.
// The bounds for waits and ages begin at 1 ms and end at 4,194 s; those for lateness begin
// at 125 µs and end at 524 s. The zero value is empty.
type Histogram struct {
	// Counts[i] is the number of durations over Bound(i-1) and up to Bound(i). The last
	// is the number of those over all bounds.
	Counts [HistogramBuckets]int64
	// Sum is the sum of all durations in seconds, each rounded down to a microsecond.
	Sum float64

	unit time.Duration
}

func histogram(t *stats.Histogram, unit time.Duration) Histogram {
	return Histogram{Counts: t.Counts, Sum: float64(t.Micros) / 1e6, unit: unit}
}

// Bound returns the upper bound, inclusive, of the i-th bucket. The bound of the last
// bucket is math.MaxInt64.
func (h Histogram) Bound(i int) time.Duration {
	if i >= HistogramBuckets-1 {
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
	return h.Bound(HistogramBuckets - 1)
}

// Since returns the durations that were added to the histogram after before, an earlier
// snapshot of it, was taken.
func (h Histogram) Since(before *Histogram) Histogram {
	d := h
	for i, c := range before.Counts {
		d.Counts[i] -= c
	}
	d.Sum -= before.Sum
	return d
}
