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
// come by since it was added; a bucket of the wheel; cascade, when its overflow
// bucket has expired and it waits to be placed again; due, when its deadline
// has passed and it waits for a worker. In each of them it can still be
// cancelled, in O(1).
type shard struct {
	ticks divisor // by the nanoseconds of a tick
	phase int64   // ticks by which this wheel is ahead of the clock, see phase

	// next is a lower bound on the tick at which something here needs the
	// clock. Adders lower it, the clock raises it, both under mu; it is read
	// without.
	next atomic.Int64

	mu struct {
		sched.Mutex
		pending int32
		stopped bool
		youngAt int64 // when the clock comes for young; never: nobody has asked it to
		young   taskList
		wheel   timingWheel
		cascade taskList
		due     taskList
	}

	youngWait int64  // from the first that is young until the clock comes for it
	bit       uint64 // 1 << the shard's index
} // five cache lines; none that is written is another shard's too, see TestSizes

// chunk bounds how many entries or buckets are moved per hold of a shard's lock,
// so that adding is never locked out while millions expire or are cancelled.
const chunk = 128

// Most timers are cancelled soon after they were added, long before they are due. So an
// entry that is due in more than four times youngFor is not placed when it is added, but
// put into a list; the clock comes by, within youngFor, and places those that are left in
// it. That is one more move for an entry that stays, and no bucket, no bitmap and no
// level for one that does not.
//
// The clock places youngShare of them and then looks again at what is due, in all shards:
// that does not wait for a million that are not.
const (
	youngFor   = time.Second // a tick, if that is longer
	youngShare = 8 * chunk
)

// farOf returns from when on an entry's deadline is far: never if there is no such time.
func farOf(tick int64) (far int64) {
	if tick = max(tick, int64(youngFor)); tick >= never/4 {
		return never
	}
	return 4 * tick
}

// youngWait returns how long the young of the index-th shard wait for the clock, an eighth
// to a quarter of far: shards that are first added to together take turns.
func youngWait(far int64, index, shards int) int64 {
	return far/8 + far/8/int64(shards)*int64(index+1)
}

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
	s.youngWait = youngWait(farOf(int64(tick)), index, shards)
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

// isYoungLocked reports whether an entry with this deadline is added to the young. since
// is when it is added, or somewhat earlier.
func (s *shard) isYoungLocked(since, deadline, far int64) bool {
	return deadline-since > far && (s.mu.youngAt == never || deadline-s.mu.youngAt > far/2)
}

// addYoungLocked keeps e for the clock to place, and returns the tick at which the clock
// is needed for that, if it has not been told.
//
// None is forgotten. (1) Each is due more than half of far after youngAt: the first one,
// for youngAt is at most a quarter of far after it came, or it seems to its adder that it
// came; and later ones, or they were not added to the young. An earlier deadline takes an
// entry out (Extend). (2) While there are any, next is not above the tick of youngAt: who
// sets youngAt lowers next, and the clock, which alone raises next, raises it no higher.
// (3) When the clock comes to that tick it places them, and does not raise next before
// none is left; it does so in shares, until half of far has passed, and then at once.
func (s *shard) addYoungLocked(e *TaskEntry, since int64) (expiration int64) {
	s.mu.young.pushBack(e)
	if s.mu.youngAt != never {
		return never
	}
	s.mu.youngAt = since + s.youngWait
	return s.youngTick()
}

// youngTick returns the tick at which the clock comes for the young, never if it does not.
func (s *shard) youngTick() int64 {
	if s.mu.youngAt == never {
		return never
	}
	return s.dueTick(s.mu.youngAt)
}

// placeYoungLocked places up to chunk of the young, if it is time, and reports whether
// more are left.
func (s *shard) placeYoungLocked(tick int64) (placed int, more bool) {
	if s.youngTick() > tick {
		return 0, false
	}
	for ; !s.mu.young.empty(); placed++ {
		if placed == chunk {
			return placed, true
		}
		e := s.mu.young.root.next
		unlink(e)
		s.placeLocked(e, e.deadline)
	}
	s.mu.youngAt = never
	expiration, _ := s.mu.wheel.next()
	s.next.Store(s.onClock(expiration))
	return placed, false
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
// chunk such steps and reports whether more are left.
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
			s.next.Store(min(expiration, s.youngTick()))
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
