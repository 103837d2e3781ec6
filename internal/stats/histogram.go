package stats

import (
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

// Histogram is a histogram of durations. It is not safe for concurrent use.
type Histogram struct {
	Counts [NumBuckets]int64
	// Micros is the sum of the durations in microseconds. A sum in nanoseconds would
	// overflow after 300 million waits of 30 s.
	Micros int64
}

// add counts d in a histogram of unit.
func (t *Histogram) add(d, unit time.Duration) {
	t.Counts[bucket(d, unit)]++
	t.Micros += int64(max(d, 0) / time.Microsecond)
}

// bucket returns the bucket of d in a histogram of unit. It is inlined where unit is a
// constant, so that it divides by a constant.
func bucket(d, unit time.Duration) int {
	return min(bits.Len64(uint64(max(d, 1)-1)/uint64(unit)), NumBuckets-1)
}

func (t *Histogram) addTo(sum *Histogram) {
	for i, n := range t.Counts {
		sum.Counts[i] += n
	}
	sum.Micros += t.Micros
}

// Times has the ages, waits and lateness of the operations of a shard. It is not safe for
// concurrent use: the shard's lock guards it.
type Times struct {
	ages   ages                           // of pending operations
	Waited [machine.NumOutcomes]Histogram // time from start to end of ended operations, by outcome; that of Pending is unused
	Late   Histogram                      // time from the deadline to the end of expired operations
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
	t.ages.each(func(_ int, start int64, n int32) {
		if n <= 0 { // operations started or ended while the shards were being summed
			return
		}
		age := max(now-time.Duration(start), 0)
		oldest = max(oldest, age)
		all.Counts[bucket(age, WaitUnit)] += int64(n)
		all.Micros += int64(age/time.Microsecond) * int64(n)
	})
	return oldest, all
}
