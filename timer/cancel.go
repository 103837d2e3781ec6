package timer

import "github.com/delayedop/purgatory/internal/entry"

// Cancel removes task from the timer and reports whether it did. True means that its task will
// not run for the last AddAt. False means that it has expired or is expiring, was cancelled,
// was never added, or belongs to another timer. It takes O(1) and does not block.
//
// The entry of an operation that was never added is cancelled for good: Extend does not schedule it.
func (t *store) Cancel(task *TaskEntry) bool {
	e := &task.entry
	s := t.shardOf(e)
	if s == nil {
		if s = t.operationShard(e); s == nil {
			return false
		}
	}
	s.mu.Lock()
	ok := t.ownsLocked(e) && s.cancelLocked(e)
	s.mu.Unlock()
	if ok {
		t.release(1)
	}
	return ok
}

// CancelAll is [Timer.Cancel] for many entries and returns how many it cancelled. It
// skips nil entries and those of other timers. It takes a shard's lock once for up to 128
// adjacent entries of that shard, which is faster than to cancel them one by one.
func (t *store) CancelAll(tasks []*TaskEntry) (n int) {
	for i := 0; i < len(tasks); {
		if tasks[i] == nil {
			i++
			continue
		}
		s := t.shardOf(&tasks[i].entry)
		if s == nil {
			if s = t.operationShard(&tasks[i].entry); s == nil {
				i++
				continue
			}
		}
		s.mu.Lock()
		for end := min(i+chunk, len(tasks)); i < end && tasks[i] != nil; i++ {
			e := &tasks[i].entry
			if t.shardOf(e) != s {
				break
			}
			if t.ownsLocked(e) && s.cancelLocked(e) {
				n++
			}
		}
		s.mu.Unlock()
	}
	t.release(n)
	return n
}

// cancelLocked removes e, if it is in a list, and reports whether it did.
func (s *shard) cancelLocked(e *entry.Entry) bool {
	if e.Next == nil {
		if e.At == 0 { // an operation's: a timer owns no task that was never added
			e.At = entry.Cancelled
		}
		return false
	}
	s.unlinkLocked(e)
	e.At = entry.Cancelled
	s.mu.pending--
	return true
}
