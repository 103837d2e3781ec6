package timer

import (
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// shard is one of the timer's wheels with its lock. Entries are spread over
// shards so that goroutines that add and cancel rarely meet.
//
// An entry is in one of: young, when its deadline is far and the clock has not
// come by since it was added; a bucket of the wheel; cascade, when it was young or
// its overflow bucket has expired, and it waits to be placed; due, when its
// deadline has passed and it waits for a worker. In each of them it can still be
// cancelled, in O(1).
type shard struct {
	ticks divisor // by the nanoseconds of a tick
	phase int64   // ticks by which this wheel is ahead of the clock, see phase
	bit   uint64  // 1 << the shard's index

	// next is a lower bound on the tick at which something here needs the
	// clock. Adders lower it, the clock raises it, both under mu; it is read
	// without.
	next atomic.Int64

	mu struct {
		sched.Mutex
		pending int32
		stopped bool
		youngAt int64 // tick at which the clock comes for young; never: nobody has asked it to
		youngBy int64 // tick at which it takes all, as long as it is asked to
		young   taskList
		wheel   timingWheel
		cascade taskList
		due     taskList
	}
} // five cache lines exactly: a shard shares none with the next

// chunk bounds how many entries or buckets are moved per hold of a shard's lock,
// so that adding is never locked out while millions expire or are cancelled.
const chunk = 128

// Most timers are cancelled soon after they were added, long before they are due. So an
// entry whose deadline is more than farTicks away is not placed when it is added, but
// put into a list; the clock comes by within youngTicks, if there is such a list, and
// places those that are left in it. That is one more move for an entry that stays, and
// no bucket, no bitmap and no level for one that does not.
//
// There is time for it: who is due does not wait for a million who are not. The clock
// takes youngShare of a list and goes on with it a tick later.
const (
	youngTicks = 1 << 10
	youngShare = 8 * chunk
	farTicks   = 4 * youngTicks
)

func (s *shard) init(index int, tick time.Duration, wheelSize, shards int) {
	s.ticks = newDivisor(int64(tick))
	if tick > 1 { // else the clock fills an int64 with ticks
		s.phase = phase(index, int64(wheelSize), int64(shards))
	}
	s.bit = 1 << index
	s.mu.wheel.init(wheelSize, s.phase)
	s.mu.cascade.init()
	s.mu.due.init()
	s.mu.young.init()
	s.mu.youngAt = never
	s.next.Store(never)
}

// phase returns by how many ticks the wheel of the index-th shard is ahead. When a
// bucket of an overflow wheel expires, all that is in it is placed again, at once. In
// wheels that go in step the buckets of all shards expire together, and whatever
// expires next is late by as much as that takes. So each is ahead of the one before it
// by a shards-th of a bucket: of the second wheel's, and of the third wheel's too.
func phase(index int, size, shards int64) int64 {
	return int64(index) * (size + size*size) / shards
}

// inWheel returns what the wheel calls a tick of the clock.
func (s *shard) inWheel(tick int64) int64 { return tick + s.phase }

// onClock returns what the clock calls a tick of the wheel.
func (s *shard) onClock(tick int64) int64 {
	if tick == never {
		return never
	}
	return tick - s.phase
}

// dueTick returns the first tick that is not before deadline. Rounding up, here
// and only here, is what makes "never early" hold: a bucket is flushed when
// now/tick, rounded down, has reached its tick, so now >= tick*dueTick >= deadline.
func (s *shard) dueTick(deadline int64) int64 {
	return s.ticks.quotient(deadline-1) + 1
}

// placeLocked puts e where its deadline belongs and returns the tick at which
// the clock is needed there; 0 if it is due.
func (s *shard) placeLocked(e *TaskEntry, deadline int64) (expiration int64) {
	tick := s.inWheel(s.dueTick(deadline))
	if tick <= s.mu.wheel.now {
		s.mu.due.pushBack(e)
		return 0
	}
	return s.onClock(s.mu.wheel.add(e, tick))
}

// addYoungLocked keeps e, whose deadline is far, for the clock to place, and returns
// the tick at which the clock is needed for that. Shards whose wheels are out of step
// need it at different ticks.
//
// None is forgotten. (1) When the first one comes, at tick t, youngAt is set to t +
// youngTicks at most, and youngBy to t + 3·youngTicks at most. All that come into the list
// from then on are due after t + farTicks. (2) next is not above youngAt while there are
// any: who sets youngAt lowers next, and the clock, which alone raises next, raises it to
// youngAt at most. (3) A clock that has come to youngAt leaves none in the list, or sets
// youngAt one tick later; and when it has come to youngBy it leaves none.
func (s *shard) addYoungLocked(e *TaskEntry, now int64) (expiration int64) {
	if s.mu.youngAt == never {
		tick := s.inWheel(s.ticks.quotient(now))
		s.mu.youngAt = s.onClock((tick/youngTicks + 1) * youngTicks)
		s.mu.youngBy = s.mu.youngAt + 2*youngTicks
	}
	s.mu.young.pushBack(e)
	return s.mu.youngAt
}

// takeYoungLocked has some of the young placed next, or all.
func (s *shard) takeYoungLocked(tick int64) {
	if tick >= s.mu.youngBy {
		s.mu.cascade.takeAll(&s.mu.young)
	} else {
		s.mu.cascade.takeFirst(youngShare, &s.mu.young)
	}
	if s.mu.youngAt = tick + 1; s.mu.young.empty() {
		s.mu.youngAt = never
	}
}

// unlinkLocked takes e out of the list that it is in.
func (s *shard) unlinkLocked(e *TaskEntry) {
	if root := unlink(e); root != nil {
		s.mu.wheel.emptied(root)
	}
}

// catchUpLocked moves the wheel to now if nothing expires until then, so that
// what is added is placed as low as it can be. A flush that is under way raises
// next only when it is through, so nothing moves beneath it.
func (s *shard) catchUpLocked(now int64) {
	tick := s.ticks.quotient(now)
	if at := s.inWheel(tick); at > s.mu.wheel.now && tick < s.next.Load() {
		s.mu.wheel.moveTo(at)
	}
}

// cancelLocked takes e out if it is still in.
func (s *shard) cancelLocked(e *TaskEntry) bool {
	if e.next == nil {
		return false
	}
	s.unlinkLocked(e)
	e.deadline = cancelled
	s.mu.pending--
	return true
}

// cancelAllLocked is cancelLocked for many, nil entries passed over; it returns how
// many it took out.
func (s *shard) cancelAllLocked(entries []*TaskEntry) (n int) {
	var g gap
	for _, e := range entries {
		if e == nil || e.next == nil {
			continue
		}
		if root := g.take(e); root != nil {
			s.mu.wheel.emptied(root)
		}
		e.deadline = cancelled
		n++
	}
	if root := g.close(); root != nil {
		s.mu.wheel.emptied(root)
	}
	s.mu.pending -= int32(n)
	return n
}

// flushLocked moves what has expired by tick towards due: whole buckets of the
// lowest wheel in O(1), those of overflow wheels entry by entry. It makes up to
// chunk such steps and reports whether more are left. When nothing more expires, it
// places the young if it is time.
func (s *shard) flushLocked(tick int64) (more bool) {
	w := &s.mu.wheel
	for range chunk {
		if !s.mu.cascade.empty() {
			e := s.mu.cascade.root.next
			unlink(e)
			s.placeLocked(e, e.deadline)
			continue
		}
		expiration, bucket := w.next()
		expiration = s.onClock(expiration)
		if expiration > tick {
			w.moveTo(max(s.inWheel(tick), w.now))
			if s.mu.youngAt <= tick { // and the wheel stands where they are best placed from
				s.takeYoungLocked(tick)
				continue
			}
			s.next.Store(min(expiration, s.mu.youngAt))
			return false
		}
		w.moveTo(s.inWheel(expiration))
		if w.lowest(bucket) {
			w.take(bucket, &s.mu.due)
		} else {
			w.take(bucket, &s.mu.cascade)
		}
	}
	return true
}

// popLocked claims one due entry for the caller to run; nil if it found none. An
// entry whose deadline was extended goes back into the wheel instead; expiration
// is the earliest tick at which the clock is needed for one of those, never if
// there are none. now is an earlier reading of the clock, which serves as long as it
// proves deadlines to have passed; it is renewed when it does not.
func (s *shard) popLocked(now *int64, clock func() time.Duration) (e *TaskEntry, expiration int64) {
	expiration = never
	renewed := false
	for range chunk {
		if s.mu.due.empty() {
			break
		}
		first := s.mu.due.root.next
		deadline := first.deadline
		if deadline > *now && !renewed {
			*now, renewed = max(int64(clock()), 1), true // no deadline is 0, so 1 ns is "at once" when the clock reads 0
		}
		if deadline > *now {
			unlink(first)
			// Placed against the wheel's now, which may be ahead of the caller's
			// reading of the clock or behind it: the tick is in the future of
			// both, or the entry stays due and the caller looks again.
			if at := s.placeLocked(first, deadline); at != 0 {
				expiration = min(expiration, at)
			}
			continue
		}
		first.deadline = deadline | fired
		unlink(first)
		s.mu.pending--
		e = first
		break
	}
	if expiration < s.next.Load() {
		s.next.Store(expiration)
	}
	return e, expiration
}
