package timer

import (
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// Extend moves the deadline of a scheduled e, a time on the timer's clock, and
// reports whether it was in time: true means that e will not expire before the
// new deadline; false that it has expired, is expiring, was cancelled, or was
// never added. A later deadline costs one atomic operation: the wheel learns of
// it when the old one passes. An earlier one moves e in its wheel.
func (t *store) Extend(e *TaskEntry, deadline time.Duration) bool {
	to := within(deadline)
	for {
		sched.Yield()
		old := e.deadline.Load()
		if old <= 0 {
			return false
		}
		if to < old {
			return t.shorten(e, to, deadline <= 0)
		}
		if e.deadline.CompareAndSwap(old, to) {
			return true
		}
	}
}

// shorten sets an earlier deadline. Under the shard's lock nobody else can
// expire or cancel e; only Extend may still race, and then the last one wins. atOnce
// is for a deadline that even a clock that reads 0 has reached: in an entry 0 means
// "never added", so it became 1.
func (t *store) shorten(e *TaskEntry, deadline int64, atOnce bool) bool {
	s := t.shardOf(e)
	s.mu.Lock()
	if e.next == nil {
		s.mu.Unlock()
		return false
	}
	e.deadline.Store(deadline)
	s.unlinkLocked(e)
	var expiration int64
	if atOnce {
		s.mu.due.pushBack(e)
	} else {
		expiration = s.placeLocked(e, deadline)
	}
	t.placedLocked(s, expiration)
	s.mu.Unlock()
	t.placed(expiration)
	return true
}
