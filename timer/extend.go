package timer

import "time"

// DeadlineOf returns e.Deadline, and may be called at any time.
func (t *store) DeadlineOf(e *TaskEntry) time.Duration {
	s := t.shardOf(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.Deadline()
}

// Extend moves the deadline of a scheduled e, a time on the timer's clock, and
// reports whether it was in time: true means that e will not expire before the
// new deadline; false that it has expired, is expiring, was cancelled, or was
// never added. A later deadline is only noted: the wheel learns of it when the old
// one passes. An earlier one moves e in its wheel.
func (t *store) Extend(e *TaskEntry, deadline time.Duration) bool {
	to := within(deadline)
	s := t.shardOf(e)
	s.mu.Lock()
	if e.next == nil {
		s.mu.Unlock()
		return false
	}
	earlier := to < e.deadline
	e.deadline = to
	if !earlier {
		s.mu.Unlock()
		return true
	}
	s.unlinkLocked(e)
	s.catchUpLocked(int64(t.now()))
	var expiration int64
	if deadline <= 0 { // even a clock that reads 0 has reached it; in an entry 0 means "never added"
		s.mu.due.pushBack(e)
	} else {
		expiration = s.placeLocked(e, to)
	}
	t.placedLocked(s, expiration)
	s.mu.Unlock()
	t.placed(expiration)
	return true
}
