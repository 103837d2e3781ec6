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
//   - spill: its bucket of a higher level has expired, and it is to be put into a lower one;
//   - due: its bucket of the lowest level has expired, or its deadline had passed when it
//     came. It waits for a worker.
type shard struct {
	tick  int64 // in ns
	phase int64 // ticks by which the wheel is ahead of the clock
	last  int64 // the last tick of the wheel that the clock can reach
	far   int64 // how far ahead the deadline of a young entry is at least, in ns

	// next is a lower bound on the time at which this shard has to be flushed, in ns.
	// Goroutines that put entries in lower it, a flush raises it, both with mu held.
	// It is read without mu.
	next sched.Int64

	mu struct { // level 3 of the lock order, see docs/design.md
		sched.Mutex
		pending int64
		youngAt int64 // the time at which young is to be emptied into the wheel, in ns; 0: no time is set
		young   entry.List
		wheel   timingWheel
		spill   entry.List
		due     entry.List
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
	// If the buckets of all shards expired together, the next expiry would be late by the time
	// that it takes to spill them. So each wheel is ahead of the previous one by 1/shards of a
	// bucket of level 1 plus 1/shards of a bucket of level 2. Ticks of 1 ns use the whole range
	// of int64, so a phase would overflow.
	if size := cfg.wheelSize; s.tick > 1 {
		s.phase = i * (size + size*size) / shards
	}
	s.last = s.phase + never/s.tick
	s.mu.wheel.init(cfg.wheelSize, s.phase)
	s.mu.young.Init()
	s.mu.spill.Init()
	s.mu.due.Init()
	s.next.Store(never)
	return s
}

// timeOf returns when the clock reaches a tick of the wheel, in ns.
func (s *shard) timeOf(tick int64) int64 {
	if tick > s.last {
		return never
	}
	return (tick - s.phase) * s.tick
}

// scheduleLocked puts e, which is in no list, into the one for its deadline. It returns the time at which
// s is to be flushed for that: 0 if e is due, never if a flush is planned anyway.
func (s *shard) scheduleLocked(e *entry.Entry, now, deadline time.Duration) (at int64) {
	since := max(int64(now), 0) // a caller may pass any value
	e.At = within(deadline)
	switch {
	case deadline <= now:
		s.mu.due.Push(e) // due now, not at the end of the tick
		return 0
	case e.At-since > s.far && e.At-s.mu.youngAt > s.far/2: // see youngFor
		s.mu.young.Push(e)
		if s.mu.youngAt != 0 {
			return never
		}
		s.mu.youngAt = since + s.youngWait
		return s.youngTime()
	}
	// Move the wheel to the clock if no bucket expires until then, so that e comes into the lowest
	// level that it needs. A flush that has released the lock between two chunks has not raised
	// next, so the wheel does not pass what that spills.
	if w := &s.mu.wheel; since >= s.timeOf(w.now+1) && since < s.next.Load() {
		w.now = since/s.tick + s.phase
	}
	return s.putLocked(e)
}

// putLocked puts e into the bucket of its deadline and returns when that expires, or into due
// and returns 0.
//
// Nothing else rounds a deadline, and this rounds up. So "never early" holds: the wheel's now is
// the clock rounded down.
func (s *shard) putLocked(e *entry.Entry) (at int64) {
	tick := (e.At-1)/s.tick + 1 + s.phase
	if tick <= s.mu.wheel.now {
		s.mu.due.Push(e)
		return 0
	}
	return s.timeOf(s.mu.wheel.put(e, tick))
}

// lowerLocked takes the first entry out of list, which is not empty, and puts it into the wheel or into due.
func (s *shard) lowerLocked(list *entry.List) (at int64) {
	e := list.First()
	e.Unlink()
	return s.putLocked(e)
}

// flushLocked moves entries whose buckets have expired at now towards due: a bucket of the
// lowest level in one step, a bucket of a higher level entry by entry. It makes up to chunk
// steps; if there are no more, it empties young into the wheel. It reports whether this flush has to call it
// again.
func (s *shard) flushLocked(now int64) (more bool) {
	w := &s.mu.wheel
	for range chunk {
		if !s.mu.spill.Empty() {
			s.lowerLocked(&s.mu.spill)
			continue
		}
		bucket, tick, level := w.next()
		at := s.timeOf(tick)
		if at > now {
			w.now = max(w.now, now/s.tick+s.phase)
			if s.youngTime() <= now {
				more = s.putYoungLocked(now)
				_, tick, _ = w.next()
				at = s.timeOf(tick)
			}
			s.next.Store(min(at, s.youngTime()))
			return more
		}
		if w.now = tick; level == 0 {
			s.mu.due.Take(bucket)
		} else {
			s.mu.spill.Take(bucket)
		}
	}
	return true
}
