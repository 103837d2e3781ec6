package timer

// Cancel removes e from the timer and reports whether it did. True means that e's task will
// not run for the last AddAt. False means that e has expired or is expiring, was cancelled,
// was never added, or belongs to another timer. It takes O(1) and does not block.
func (t *store) Cancel(e *TaskEntry) bool {
	s := t.shardOf(e)
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
func (t *store) CancelAll(entries []*TaskEntry) (n int) {
	for len(entries) > 0 {
		run := 1
		if e := entries[0]; e != nil {
			s := t.shardOf(e)
			run += t.sameShard(s, entries[1:min(len(entries), chunk)])
			s.mu.Lock()
			n += t.cancelAllLocked(s, entries[:run])
			s.mu.Unlock()
		}
		entries = entries[run:]
	}
	t.release(n)
	return n
}

// sameShard returns the length of the prefix of entries that are nil or belong to s.
func (t *store) sameShard(s *shard, entries []*TaskEntry) (n int) {
	for _, e := range entries {
		if e != nil && t.shardOf(e) != s {
			break
		}
		n++
	}
	return n
}

// cancelLocked removes e, if it is in a list, and reports whether it did.
func (s *shard) cancelLocked(e *TaskEntry) bool {
	if e.next == nil {
		return false
	}
	s.unlinkLocked(e)
	e.deadline = cancelled
	s.mu.pending--
	return true
}

// cancelAllLocked is cancelLocked for many entries of s. It skips nil entries and those of
// other timers, and returns how many it removed.
func (t *store) cancelAllLocked(s *shard, entries []*TaskEntry) (n int) {
	for _, e := range entries {
		if e == nil || !t.ownsLocked(e) || e.next == nil {
			continue
		}
		s.unlinkLocked(e)
		e.deadline = cancelled
		n++
	}
	s.mu.pending -= int32(n)
	return n
}
