package watchers

import (
	"math"
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

// waitBounds returns what the waits of a bucket are longer than, and as long as at most.
func waitBounds(bucket int) (after, upTo time.Duration) {
	after, upTo = WaitUnit<<bucket>>1, WaitUnit<<bucket
	if bucket == 0 {
		after = -1
	}
	if bucket == Buckets-1 {
		upTo = math.MaxInt64
	}
	return after, upTo
}

func lateBucket(d time.Duration) int {
	return min(bits.Len64(uint64(max(d, 1)-1)/uint64(LateUnit)), Buckets-1)
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

// endings counts the ends of operations that were watched. A run that began in the same
// 16.8 ms, waited for about as long and ends the same way is counted as one.
type endings struct {
	times *Times
	now   time.Duration

	o           operation.Outcome // the run: how it ends,
	start       time.Duration     // when its first began,
	after, upTo time.Duration     // between what bounds it waited,
	bucket      int               // of which bucket they are,
	n           int32             // how many it is,
	waited      time.Duration     // and how long they waited in sum
}

func (e *endings) add(m *operation.Machine, o operation.Outcome) {
	start := m.Start()
	waited := max(e.now-start, 0)
	if o != e.o || waited <= e.after || waited > e.upTo || start>>ageShift != e.start>>ageShift || e.waited+waited < 0 {
		e.flush()
		e.o, e.start, e.bucket = o, start, waitBucket(waited)
		e.after, e.upTo = waitBounds(e.bucket)
	}
	e.n++
	e.waited += waited
	if o == operation.Expired {
		if deadline := m.Entry().Deadline(); deadline > 0 {
			late := max(e.now-deadline, 0)
			e.times.Late.Counts[lateBucket(late)]++
			e.times.Late.Micros += int64(late / time.Microsecond)
		}
	}
}

func (e *endings) flush() {
	if e.n > 0 {
		e.times.ages.ended(e.start, e.now, e.n)
		e.times.Waited[e.o].Counts[e.bucket] += int64(e.n)
		e.times.Waited[e.o].Micros += int64(e.waited / time.Microsecond)
		e.n, e.waited = 0, 0
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
