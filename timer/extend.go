package timer

import "time"

// DeadlineOf returns what [TaskEntry.Deadline] returns, with the lock that guards it, so it
// may be called at any time. It returns 0 if task belongs to another timer.
func (t *store) DeadlineOf(task *TaskEntry) time.Duration {
	e := &task.entry
	s := t.shardOf(e)
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.ownsLocked(e) {
		return 0
	}
	return e.Deadline()
}

// Extend moves the deadline of a scheduled task, to a time on the timer's clock, and reports
// whether it came in time. True means that it does not expire before the new deadline. False
// means that it has expired or is expiring, was cancelled, was never added, or belongs to
// another timer. It does not block.
//
// A deadline that is later by a tick or more is written to the entry only: when the old
// deadline passes, the timer finds the new one and places the entry again. Another deadline
// moves the entry at once.
//
// The operation of a purgatory that has no timeout is not added. Its first deadline schedules it, unless
// Cancel was called, or Stop. No maximum of pending entries applies to that.
func (t *store) Extend(task *TaskEntry, deadline time.Duration) bool {
	e := &task.entry
	to := within(deadline)
	s := t.shardOf(e)
	if s == nil {
		if s = t.operationShard(e); s == nil {
			return false
		}
	}
	s.mu.Lock()
	if !t.ownsLocked(e) || e.Next == nil && (e.At != 0 || s.mu.stopped) {
		s.mu.Unlock()
		return false
	}
	first := e.Next == nil // it was never added, so it is an operation's: t owns no such task
	if first && to == int64(Never) {
		s.mu.Unlock()
		return true // it has no timeout still
	}
	// If the old deadline has passed, and its tick has not come, the new one may have passed
	// too. Then the two are less than a tick apart.
	later := to-e.At >= t.tick && !first
	e.At = to
	if later {
		s.mu.Unlock()
		return true
	}
	if first {
		s.mu.pending++
		t.release(-1)
	} else {
		s.unlinkLocked(e)
	}
	now := t.now()
	s.catchUpLocked(int64(now))
	var expiration int64
	if deadline <= now {
		s.mu.due.pushBack(e) // due now, not at the end of the tick
	} else {
		expiration = s.placeLocked(e)
	}
	t.placedLocked(s, expiration)
	s.mu.Unlock()
	t.placed(expiration)
	return true
}
