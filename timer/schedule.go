package timer

import (
	"fmt"
	"time"

	"github.com/delayedop/purgatory/internal/bounded"
	"github.com/delayedop/purgatory/internal/entry"
)

// AddAt schedules task to expire at deadline, a time on the timer's clock (see [Deadline]), or at once if that is not
// after now, a recent reading of Now and never later. It runs no task.
//
// Errors, after which nothing is scheduled: [ErrInvalid] (task is bound to no [Task], is scheduled already, or is
// another timer's), [ErrFull], [ErrStopped].
func (t *store) AddAt(task *TaskEntry, now, deadline time.Duration) error {
	now = t.checked(now)
	e := &task.entry
	s := t.shardOf(e)
	if s == nil { // as in lock, which is not inlined
		s = t.makeShard(e)
	}
	s.mu.Lock()
	if !t.owns(e) || e.Linked() || t.maxPending != 0 || t.stopped.Load() { // rare
		if err := t.admitLocked(e); err != nil {
			s.mu.Unlock()
			return err
		}
	}
	s.mu.pending++
	t.insert(s, e, now, deadline)
	if overdue := t.overdue.Load(); int64(now) > overdue {
		t.callStandIn(overdue, int64(now))
	}
	return nil
}

// insert puts e, which is in no list, into the one for its deadline, and unlocks s.
func (t *store) insert(s *shard, e *entry.Entry, now, deadline time.Duration) {
	since, at := int64(now), int64(0)
	e.At = within(deadline)
	far := e.At-since > s.far
	switch {
	case far && s.mu.young.Empty():
		at = since + s.youngWait
		s.mu.youngAt = at
		s.mu.young.Push(e)
	case far && e.At-s.mu.youngAt > s.far/2:
		at = never
		s.mu.young.Push(e)
	case deadline <= now:
		s.mu.due.Push(e) // due now, not at the end of the tick
	default:
		// Move the wheel to the clock, unless a bucket expires before.
		if w := &s.mu.wheel; since >= s.timeOf(w.now+1) && since < s.next.Load() {
			w.now = since/s.tick + s.phase
		}
		at = s.putLocked(e)
	}
	if at < s.next.Load() {
		t.release(s, at)
	} else { // a flush is planned for then, or before
		s.mu.Unlock()
	}
}

// admitLocked accepts e, or returns the error of AddAt. It counts e after it has looked for other errors, so that nobody is
// refused although there is room. Last it claims an entry that is nobody's: one that is refused stays nobody's.
func (t *store) admitLocked(e *entry.Entry) error {
	owned := t.owns(e)
	switch {
	case !owned && taskEntry(e).bound == nil:
		return fmt.Errorf("%w: the entry is bound to no task", ErrInvalid)
	case !owned && !e.Free():
		return errForeign
	case t.stopped.Load():
		return ErrStopped
	case owned && e.Linked():
		return errScheduled
	case t.maxPending > 0 && !bounded.Increment(&t.pending, t.maxPending):
		return fmt.Errorf("%w: the maximum is %d", ErrFull, t.maxPending)
	case owned || e.Claim(t.id):
		return nil
	case t.maxPending > 0:
		t.pending.Add(-1)
	}
	return errForeign // another timer was faster
}

// owns reports whether e has been added to t since it was bound. Who has locked e's shard in t looks first: the lock
// guards no other timer's entry. A purgatory uses one timer.
func (t *store) owns(e *entry.Entry) bool { return e.OwnedBy(t.id) }

// lock returns e's shard, locked: that guards e if t owns e.
func (t *store) lock(e *entry.Entry) *shard {
	s := t.shardOf(e)
	if s == nil {
		s = t.makeShard(e)
	}
	s.mu.Lock()
	return s
}

// release unlocks s, after an entry came to be due (at is 0), or into a bucket that expires then; or never.
func (t *store) release(s *shard, at int64) {
	if due := !s.mu.due.Empty(); due != s.ready.Load() {
		if due {
			s.ready.Store(true)
			t.ready.Add(1)
		} else { // in this order, or a worker that finds no ready shard would come again and again
			t.ready.Add(-1)
			s.ready.Store(false)
		}
	}
	if 0 < at && at < s.next.Load() { // with the lock: of two goroutines, the earlier time remains
		s.next.Store(at)
	}
	s.assertLocked()
	s.mu.Unlock()
	if at < t.wake.Load() {
		t.clock.need(at)
	}
}

// Cancel removes task from the timer and reports whether it did: not if it is expiring, or another timer's.
func (t *store) Cancel(task *TaskEntry) bool {
	e := &task.entry
	s := t.shardOf(e)
	if s == nil { // likewise
		s = t.makeShard(e)
	}
	s.mu.Lock()
	ok := t.owns(e) && t.cancelLocked(s, e)
	s.mu.Unlock()
	return ok
}

// CancelAll is Cancel for many entries and returns how many it cancelled.
func (t *store) CancelAll(tasks []*TaskEntry) (n int) {
	var s *shard // its lock is held
	for i, task := range tasks {
		if i%chunk == 0 || s != t.shardOf(&task.entry) {
			if s != nil {
				s.mu.Unlock()
			}
			s = t.lock(&task.entry)
		}
		if t.owns(&task.entry) && t.cancelLocked(s, &task.entry) {
			n++
		}
	}
	if s != nil {
		s.mu.Unlock()
	}
	return n
}

func (t *store) cancelLocked(s *shard, e *entry.Entry) (ok bool) {
	if ok = e.Linked(); ok {
		t.removeLocked(s, e)
	}
	if ok || e.At == 0 {
		e.At = entry.ExpiredBit // no Extend may schedule it: an operation has ended
	}
	return ok
}

// countLocked counts an entry that the maximum does not refuse.
func (t *store) countLocked(s *shard) {
	s.mu.pending++
	if t.maxPending > 0 {
		t.pending.Add(1)
	}
}

func (t *store) removeLocked(s *shard, e *entry.Entry) {
	e.Unlink()
	s.mu.pending--
	if t.maxPending > 0 {
		t.pending.Add(-1)
	}
}

// Extend moves the deadline of a scheduled task, and reports whether it came in time: then the task does not expire
// before. It is no check of a lease: until a worker has claimed the entry it returns true, after the old deadline, too.
//
// A deadline that is later by a tick or more is written to the entry only: see
// docs/internals/decisions.md#a-shards-lock-guards-a-deadline. An operation that has no timeout is scheduled.
func (t *store) Extend(task *TaskEntry, deadline time.Duration) bool {
	e := &task.entry
	s := t.lock(e)
	linked := t.owns(e) && e.Linked()
	switch to := within(deadline); {
	case linked && to-e.At >= s.tick:
		e.At = to
		s.mu.Unlock()
		return true
	case linked: // the new deadline, too, may have passed
		e.Unlink()
	case !e.OfOperation() || e.At != 0 || t.stopped.Load():
		s.mu.Unlock()
		return false
	default: // an operation's that was never added
		t.countLocked(s)
	}
	t.insert(s, e, t.clock.read(), deadline)
	return true
}

// DeadlineOf returns when task expires or has expired; 0 if it was cancelled, never added, or is another timer's.
func (t *store) DeadlineOf(task *TaskEntry) time.Duration {
	s := t.lock(&task.entry)
	defer s.mu.Unlock()
	if !t.owns(&task.entry) {
		return 0
	}
	return task.entry.Deadline()
}
