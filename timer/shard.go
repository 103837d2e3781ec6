package timer

import (
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/sched"
)

// shard is one of the timer's wheels with its lock. It is safe for concurrent use; its
// methods whose name ends in Locked need mu. Entries are spread over shards to reduce lock
// contention between goroutines that add and cancel.
//
// A scheduled entry is in exactly one of these lists, and can be cancelled from each in
// O(1):
//
//   - young: its deadline is far away, and the driver has not placed it yet;
//   - a bucket of the wheel;
//   - due: its bucket of the lowest wheel has expired, or its deadline had passed when it
//     was placed. It waits for a worker.
type shard struct {
	tick int64 // in ns
	far  int64 // how far ahead the deadline of a young entry is at least, in ns

	// next is a lower bound on the tick at which this shard has to be flushed.
	// Goroutines that place entries lower it, a flush raises it, both with mu held.
	// It is read without mu.
	next sched.Int64

	mu struct { // level 3 of the lock order, see docs/design.md
		sched.Mutex
		pending int32
		stopped bool
		youngAt int64 // the time at which young is to be placed, in ns; 0: no time is set
		young   taskList
		wheel   timingWheel
		due     taskList // workers write it: it begins a cache line
	}

	// youngWait is the time from the addition of the first young entry to youngAt, in ns, between
	// far/8 and far/4. It differs so that shards that get their first young entry together are
	// handled one after the other.
	youngWait int64
	bit       uint64 // 1 << the shard's index
	_         [16]byte
} // three cache lines; no written line is shared with another shard, see TestSizes

// chunk limits how many entries or buckets are moved while a shard's lock is held, so that
// additions go on while millions of entries expire or are cancelled.
const chunk = 128

func newShard(index int, tick time.Duration, wheelSize, shards int) *shard {
	s := &shard{tick: int64(tick), bit: 1 << index}
	s.far = 4 * min(max(s.tick, int64(youngFor)), never/4)
	s.youngWait = s.far/8 + s.far/8/int64(shards)*int64(index+1)
	s.mu.wheel.size = int64(wheelSize)
	// When a bucket of an overflow wheel expires, the timer places all its entries again at once.
	// If the overflow buckets of all shards expired together, the next expiry would be late by
	// the time that all these placements take. So each wheel is ahead of the previous one by
	// 1/shards of a bucket of level 1 plus 1/shards of a bucket of level 2. Ticks of 1 ns use
	// the whole range of int64, so a phase would overflow.
	if size := s.mu.wheel.size; tick > 1 {
		s.mu.wheel.phase = int64(index) * (size + size*size) / int64(shards)
	}
	s.mu.due.init()
	s.mu.young.init()
	s.next.Store(never)
	return s
}

// dueTick returns the first tick that is not before deadline. This is the only place that
// rounds up, and it makes "never early" hold: a bucket is flushed when now/tick, rounded
// down, has reached its tick, so now >= tick*dueTick >= deadline.
func (s *shard) dueTick(deadline int64) int64 {
	return (deadline-1)/s.tick + 1
}

// placeLocked puts e into the bucket of its deadline, or into due, and returns the tick at
// which the bucket is to be flushed; 0 if e is due.
func (s *shard) placeLocked(e *entry.Entry) (expiration int64) {
	tick := s.dueTick(e.At)
	if tick <= s.mu.wheel.now {
		s.mu.due.pushBack(e)
		return 0
	}
	return s.mu.wheel.add(e, tick)
}

// unlinkLocked removes e from its list.
func (s *shard) unlinkLocked(e *entry.Entry) {
	if root := unlink(e); root != nil {
		s.mu.wheel.emptied(root)
	}
}

// catchUpLocked moves the wheel to now, a time in ns, if no bucket expires until then, so
// that the next entry is placed in the lowest possible level. It does not interfere with a
// flush that has released the lock between two chunks: a flush raises next only at its end,
// so until then next is not after the tick that is being flushed.
func (s *shard) catchUpLocked(now int64) {
	tick := now / s.tick
	if tick > s.mu.wheel.now && tick < s.next.Load() {
		s.mu.wheel.moveTo(tick)
	}
}

// flushLocked moves entries whose buckets have expired by tick towards due: a bucket of the
// lowest wheel in one step, a bucket of an overflow wheel entry by entry. It makes up to chunk
// steps; if none is left, it places young entries. It reports whether this flush has to call it
// again.
func (s *shard) flushLocked(tick int64) (more bool) {
	w := &s.mu.wheel
	for steps := 0; steps < chunk; steps++ {
		expiration, bucket := w.next()
		if expiration > tick {
			w.moveTo(max(tick, w.now))
			if s.youngTick() <= tick {
				more = s.placeYoungLocked(tick)
				expiration, _ = w.next()
			}
			s.next.Store(min(expiration, s.youngTick()))
			return more
		}
		w.moveTo(expiration)
		if bucket.root.At <= w.size { // of level 0
			s.mu.due.takeAll(bucket)
			w.emptied(&bucket.root)
			continue
		}
		// If entries are left in the bucket, next returns it again: no other comes before it.
		for ; steps < chunk && !bucket.empty(); steps++ {
			e := bucket.root.Next
			s.unlinkLocked(e)
			s.placeLocked(e)
		}
	}
	return true
}

// popLocked claims one due entry for the caller to run; nil if it found none. It puts an
// entry whose deadline was extended back into the wheel; expiration is the earliest tick at
// which the driver is needed for one of those, never if there are none. now is an earlier
// reading of the clock. It suffices to show that a deadline has passed; if it does not show
// that, popLocked reads the clock again, once.
func (s *shard) popLocked(now *int64, clock func() time.Duration) (e *entry.Entry, expiration int64) {
	expiration = never
	renewed := false
	for i := 0; i < chunk && !s.mu.due.empty(); i++ {
		e := s.mu.due.root.Next
		if e.At > *now && !renewed {
			// The earliest deadline is 1 ns, and has passed even if the clock reads 0.
			*now, renewed = max(int64(clock()), 1), true
		}
		unlink(e)
		if e.At <= *now {
			e.At |= entry.ExpiredBit
			s.mu.pending--
			return e, expiration
		}
		// The wheel's now may be ahead of this reading of the clock, or behind it. If it has
		// reached the deadline's tick, the entry is due again, and the next iteration or
		// the next call compares it anew.
		if at := s.placeLocked(e); at != 0 {
			expiration = min(expiration, at)
			s.lowerNextLocked(at)
		}
	}
	return nil, expiration
}

// lowerNextLocked lowers next to expiration unless next is earlier. The lock makes the
// comparison and the store one step: without it, two goroutines could lower next together
// and leave the later tick.
func (s *shard) lowerNextLocked(expiration int64) {
	if expiration < s.next.Load() {
		s.next.Store(expiration)
	}
}
