package watchers

import (
	"math/bits"
	"time"

	"github.com/delayedop/purgatory/operation"
)

// Buckets is how many a Tally has.
const Buckets = 24

// Units of tallies: bucket i counts durations up to unit·2^i, and over those of the
// bucket before; the last one all that are longer. Powers of two of a unit because
// the bucket is then a division by a constant and a count of bits.
const (
	WaitUnit = time.Millisecond       // the bounds: 1 ms, 2 ms, 4 ms … 4,194 s
	LateUnit = 125 * time.Microsecond // the bounds: 125 µs, 250 µs … 524 s
)

// Tally is a histogram of durations. It is not safe for concurrent use.
type Tally struct {
	Counts [Buckets]int64
	Micros int64 // sum, in µs: in ns it would overflow after 300 million waits of 30 s
}

// bucket returns the bucket of d in a tally of WaitUnit.
func waitBucket(d time.Duration) int {
	return min(bits.Len64(uint64(max(d, 1)-1)/uint64(WaitUnit)), Buckets-1)
}

func lateBucket(d time.Duration) int {
	return min(bits.Len64(uint64(max(d, 1)-1)/uint64(LateUnit)), Buckets-1)
}

func (t *Tally) add(bucket int, d time.Duration) {
	t.Counts[bucket]++
	t.Micros += int64(max(d, 0) / time.Microsecond)
}

func (t *Tally) addTo(sum *Tally) {
	for i, n := range t.Counts {
		sum.Counts[i] += n
	}
	sum.Micros += t.Micros
}

// Times is the time that operations of a shard have waited. It is not safe for
// concurrent use: the shard's lock guards it.
type Times struct {
	ages   ages                      // of the pending
	Waited [operation.Outcomes]Tally // of the ended, by outcome; [Pending] is unused
	Late   Tally                     // of the expired, behind their deadline
}

// ended counts the end of an operation that was watched.
func (t *Times) ended(m *operation.Machine, o operation.Outcome, now time.Duration) {
	start := m.Start()
	t.ages.ended(start, now)
	waited := now - start
	t.Waited[o].add(waitBucket(waited), waited)
	if o == operation.Expired {
		if deadline := m.Entry().Deadline(); deadline > 0 {
			t.Late.add(lateBucket(now-deadline), now-deadline)
		}
	}
}

func (t *Times) addTo(sum *Times) {
	t.ages.addTo(&sum.ages)
	for o := range t.Waited {
		t.Waited[o].addTo(&sum.Waited[o])
	}
	t.Late.addTo(&sum.Late)
}

// Ages returns the age of the oldest pending operation, and those of all as a
// tally of WaitUnit; each is too high by at most 4/63 of it or 16.8 ms, whichever is
// more.
func (t *Times) Ages(now time.Duration) (oldest time.Duration, all Tally) {
	t.ages.advance(int64(now))
	t.ages.each(func(_ int, start int64, n int32) {
		if n <= 0 { // operations came and went while the shards were summed
			return
		}
		age := max(now-time.Duration(start), 0)
		oldest = max(oldest, age)
		all.Counts[waitBucket(age)] += int64(n)
		all.Micros += int64(age/time.Microsecond) * int64(n)
	})
	return oldest, all
}
