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
//   - young: its deadline is far away, and the driver has not put it into the wheel yet;
//   - a bucket of the wheel;
//   - due: its bucket of the lowest wheel has expired, or its deadline had passed when it
//     came. It waits for a worker.
type shard struct {
	tick int64 // in ns
	far  int64 // how far ahead the deadline of a young entry is at least, in ns

	// next is a lower bound on the tick at which this shard has to be flushed.
	// Goroutines that put entries in lower it, a flush raises it, both with mu held.
	// It is read without mu.
	next sched.Int64

	mu struct { // level 3 of the lock order, see docs/design.md
		sched.Mutex
		pending int64
		youngAt int64 // the time at which young is to be emptied into the wheel, in ns; 0: no time is set
		young   taskList
		wheel   timingWheel
		due     taskList // workers write it: it begins a cache line
	}

	// youngWait is the time from the addition of the first young entry to youngAt, in ns, between
	// far/8 and far/4. It differs so that shards that get their first young entry together are
	// handled one after the other.
	youngWait int64
	index     int
	_         [16]byte
} // three cache lines; no written line is shared with another shard, see TestSizes

// chunk limits how many entries or buckets are moved while a shard's lock is held, so that
// additions go on while millions of entries expire or are cancelled.
const chunk = 128

func newShard(index int, cfg *config) *shard {
	s := &shard{tick: cfg.tick, index: index}
	i, shards := int64(index), int64(cfg.shardCount)
	s.far = 4 * min(max(s.tick, int64(youngFor)), never/4)
	s.youngWait = s.far/8 + s.far/8/shards*(i+1)
	s.mu.wheel.size = cfg.wheelSize
	// When a bucket of an overflow wheel expires, the timer puts all its entries into lower levels at once.
	// If the overflow buckets of all shards expired together, the next expiry would be late by
	// the time that all this takes. So each wheel is ahead of the previous one by
	// 1/shards of a bucket of level 1 plus 1/shards of a bucket of level 2. Ticks of 1 ns use
	// the whole range of int64, so a phase would overflow.
	if size := cfg.wheelSize; s.tick > 1 {
		s.mu.wheel.phase = i * (size + size*size) / shards
	}
	s.mu.due.init()
	s.mu.young.init()
	s.next.Store(never)
	return s
}

// dueTick returns the first tick that is not before deadline. Nothing else rounds
// up, and so "never early" holds: a bucket is flushed when now/tick, rounded
// down, has reached its tick, so now >= tick*dueTick >= deadline.
func (s *shard) dueTick(deadline int64) int64 {
	return (deadline-1)/s.tick + 1
}

// scheduleLocked puts e, which is in no list, into the one for its deadline. It returns the tick at which
// s is to be flushed for that: 0 if e is due, never if a flush is planned anyway.
func (s *shard) scheduleLocked(e *entry.Entry, now, deadline time.Duration) (expiration int64) {
	at, since := within(deadline), max(int64(now), 0) // a caller may pass any value
	e.At = at
	switch {
	case deadline <= now:
		s.mu.due.pushBack(e) // due now, not at the end of the tick
		return 0
	case at-since > s.far && at-s.mu.youngAt > s.far/2: // see youngFor
		s.mu.young.pushBack(e)
		if s.mu.youngAt != 0 {
			return never
		}
		s.mu.youngAt = since + s.youngWait
		return s.youngTick()
	}
	// Move the wheel to now if no bucket expires until then, so that e is put into the lowest
	// possible level. That does not interfere with a flush that has released the lock between two
	// chunks: a flush raises next only at its end, so until then next is not after the tick that is
	// being flushed.
	if tick := since / s.tick; tick > s.mu.wheel.now && tick < s.next.Load() {
		s.mu.wheel.now = tick
	}
	return s.putLocked(e)
}

// putLocked puts e into the bucket of its deadline, or into due, and returns the tick at
// which the bucket is to be flushed; 0 if e is due.
func (s *shard) putLocked(e *entry.Entry) (expiration int64) {
	tick := s.dueTick(e.At)
	if tick <= s.mu.wheel.now {
		s.mu.due.pushBack(e)
		return 0
	}
	return s.mu.wheel.add(e, tick)
}

// flushLocked moves entries whose buckets have expired by tick towards due: a bucket of the
// lowest wheel in one step, a bucket of an overflow wheel entry by entry. It makes up to chunk
// steps; if there are no more, it empties young into the wheel. It reports whether this flush has to call it
// again.
func (s *shard) flushLocked(tick int64) (more bool) {
	w := &s.mu.wheel
	for steps := 0; steps < chunk; steps++ {
		expiration, level, bucket := w.next()
		if expiration > tick {
			w.now = max(tick, w.now)
			if s.youngTick() <= tick {
				more = s.putYoungLocked(tick)
				expiration, _, _ = w.next()
			}
			s.next.Store(min(expiration, s.youngTick()))
			return more
		}
		w.now = expiration
		if level == 0 {
			s.mu.due.takeAll(bucket)
			continue
		}
		// If entries are still in the bucket, next returns it again: no other comes before it.
		for ; steps < chunk && !bucket.empty(); steps++ {
			e := bucket.root.Next
			unlink(e)
			s.putLocked(e)
		}
	}
	return true
}
