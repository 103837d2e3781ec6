package purgatory

import (
	"math"
	"time"

	"github.com/delayedop/purgatory/watchers"
)

// Buckets is the number of buckets of a Histogram.
const Buckets = watchers.Buckets

// Histogram counts durations in buckets with fixed bounds, each twice the one before.
// Those of waits and ages begin at 1 ms and end at 4,194 s; those of lateness begin at
// 125 µs and end at 524 s. The zero value is empty.
type Histogram struct {
	// Counts[i] are those up to Bound(i), but over Bound(i-1); the last those over
	// all bounds.
	Counts [Buckets]int64
	// Sum is the sum of all durations in seconds, each rounded down to a microsecond.
	Sum float64

	unit time.Duration
}

func histogram(t *watchers.Tally, unit time.Duration) Histogram {
	return Histogram{Counts: t.Counts, Sum: float64(t.Micros) / 1e6, unit: unit}
}

// Bound returns the upper bound, inclusive, of the i-th bucket; of the last
// math.MaxInt64.
func (h *Histogram) Bound(i int) time.Duration {
	if i >= Buckets-1 {
		return math.MaxInt64
	}
	return max(h.unit, 1) << i
}

// Count returns how many durations are counted.
func (h *Histogram) Count() (n int64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Quantile returns the bound of the bucket in which the q-quantile lies, q from 0 to
// 1: it is at most that, and over half of that. It returns 0 if nothing is counted,
// and math.MaxInt64 if it lies over all bounds.
func (h *Histogram) Quantile(q float64) time.Duration {
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
	return h.Bound(Buckets - 1)
}

// Since returns what was counted after before was taken of the same histogram.
func (h *Histogram) Since(before *Histogram) Histogram {
	d := *h
	for i, c := range before.Counts {
		d.Counts[i] -= c
	}
	d.Sum -= before.Sum
	return d
}
