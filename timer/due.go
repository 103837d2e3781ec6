package timer

import (
	"time"
)

// TakeDue reports whether the deadline of task has passed at now, a recent reading of t's clock. If no
// worker has claimed the entry yet, TakeDue takes it out of the timer, as Cancel does, and taken is true:
// then the caller does what the worker would have done.
func TakeDue(t Timer, task *TaskEntry, now time.Duration) (passed, taken bool) {
	store, e := t.core(), &task.entry
	s := store.shardOf(e)
	if s == nil { // no entry was added to the shard yet
		return false, false
	}
	s.mu.Lock()
	if store.ownsLocked(e) {
		at := int64(e.Deadline())
		passed = at > 0 && at <= int64(now)
		taken = passed && s.cancelLocked(e)
	}
	s.mu.Unlock()
	if taken {
		store.release(1)
	}
	return passed, taken
}
