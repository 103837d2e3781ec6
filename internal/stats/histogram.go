// Package stats has the histogram of how long operations waited.
package stats

import (
	"math"
	"math/bits"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
)

// NumBuckets is the number of buckets of a Histogram.
const NumBuckets = 24

const unit = time.Millisecond // the bound of the first bucket

// Histogram counts durations in buckets with fixed bounds, each twice the one before: 1 ms, 2 ms, 4 ms, up to 4,194 s.
// The zero value is empty.
type Histogram struct {
	// Counts[i] is the number of durations over Bound(i-1) and up to Bound(i); the last has those over all bounds.
	Counts [NumBuckets]int64
	// Sum is the sum of all durations in seconds.
	Sum float64
}

// Waited is how long operations waited, by outcome.
type Waited = [machine.NumOutcomes]Histogram

// Add counts n durations d.
func (h *Histogram) Add(d time.Duration, n int64) {
	h.Counts[min(bits.Len64(uint64(max(d, 1)-1)/uint64(unit)), NumBuckets-1)] += n
	h.Sum += float64(n) * float64(max(d, 0)) / 1e9
}

// AddAll counts the durations that are in other.
func (h *Histogram) AddAll(other *Histogram) {
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
	h.Sum += other.Sum
}

// Bound returns the upper bound, inclusive, of the i-th bucket; that of the last is math.MaxInt64.
func (h Histogram) Bound(i int) time.Duration {
	if i >= NumBuckets-1 {
		return math.MaxInt64
	}
	return unit << i
}

// Count returns the number of durations in the histogram.
func (h Histogram) Count() (n int64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Quantile returns the bound of the bucket in which the q-quantile lies, for q from 0 to 1; 0 if the histogram is
// empty.
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
