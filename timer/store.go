package timer

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
)

// store is what SystemTimer and ManualTimer share: the sharded wheels and every
// operation on entries. It starts no goroutine and waits for none; through hooks it
// reads its owner's clock, and tells its owner that the clock is needed earlier or
// that something is due.
type store struct {
	tick       int64
	far        int64 // see farOf
	shards     []shard
	maxPending int64
	panicked   guard.Handler

	now    func() time.Duration   // Extend calls it with a shard's lock held: it takes none
	needed func(expiration int64) // the clock is needed at this tick, before wake
	dueNow func()                 // something became due without the clock

	// wake is the tick that the driver sleeps on, or has last slept on; 0 if there is
	// none to wake. It is written under the driver's lock, clock; adders read it
	// without.
	//
	// No earlier deadline is slept over. (1) An adder lowers its shard's next,
	// then reads wake. (2) The driver, holding clock, sets wake to scanning, then
	// reads every shard's next, then sets wake to the earliest. So if the
	// driver missed an entry, its adder saw scanning or the tick that was
	// computed without it; (3) either is later than the entry, so the adder takes
	// clock, and by then the new wake is in place to be compared and lowered.
	wake atomic.Int64

	// overdue is the time from which on a driver that still sleeps is late; never while
	// it is awake. nudge is called, with it, by an adder that finds it past.
	overdue atomic.Int64
	nudge   func(overdue int64)

	_ [64]byte // above: read by every adder; below: written by every worker

	// ready has bit i set whenever shards[i].mu.due is not empty, and until a
	// worker has looked if the last due entry was cancelled. Written under that
	// shard's lock.
	ready   atomic.Uint64
	turn    atomic.Uint32 // where the next worker begins to look for a bit
	pending atomic.Int64  // counted only if maxPending > 0
}

func (t *store) init(cfg config) {
	t.tick = int64(cfg.tick)
	t.far = farOf(t.tick)
	t.maxPending = int64(cfg.maxPending)
	t.panicked = cfg.panicked
	t.overdue.Store(never)
	t.shards = make([]shard, cfg.shards)
	for i := range t.shards {
		t.shards[i].init(i, cfg.tick, cfg.wheelSize, cfg.shards)
	}
}

// defaultShards is eight for each processor, a power of two, at most 64: enough
// that two processors rarely meet, few enough for one word of ready bits.
func defaultShards() int {
	n := min(8*runtime.GOMAXPROCS(0), 64)
	return 1 << bits.Len(uint(n-1))
}

// shardOf returns the shard that e lies in while it is scheduled.
func (t *store) shardOf(e *TaskEntry) *shard {
	return &t.shards[e.where&uint32(len(t.shards)-1)]
}

// AddAt schedules e to expire at deadline, a time on the timer's clock (see
// Deadline). now is a recent reading of this timer's Now, never a time that is
// yet to come. A deadline that is not after now expires at once, though never on
// the caller's goroutine. Errors: ErrScheduled, ErrFull, ErrStopped, ErrNoTask; e
// is then not scheduled.
//
// It takes O(levels), and one lock that is held for a few dozen instructions.
func (t *store) AddAt(e *TaskEntry, now, deadline time.Duration) error {
	if e.task == nil {
		return ErrNoTask
	}
	if t.maxPending > 0 {
		if err := t.reserve(); err != nil {
			return err
		}
	}
	return t.add(e, now, deadline)
}

// addAgain is AddAt for a periodic task between two of its runs: it keeps its
// place, so the maximum does not apply.
func (t *store) addAgain(e *TaskEntry, now, deadline time.Duration) error {
	t.release(-1)
	return t.add(e, now, deadline)
}

// add schedules e, for which a place is reserved; it gives that back if it fails.
func (t *store) add(e *TaskEntry, now, deadline time.Duration) error {
	s := t.shardOf(e)
	s.mu.Lock()
	if s.mu.stopped || e.next != nil {
		err := ErrStopped
		if !s.mu.stopped {
			err = ErrScheduled
		}
		s.mu.Unlock()
		t.release(1)
		return err
	}
	at, since := within(deadline), max(int64(now), 0) // callers can say anything
	e.deadline = at
	var expiration int64
	switch {
	case deadline <= now:
		s.mu.due.pushBack(e) // not at the end of the tick, but now
	case s.isYoungLocked(since, at, t.far):
		expiration = s.addYoungLocked(e, since)
	default:
		s.catchUpLocked(since)
		expiration = s.placeLocked(e, at)
	}
	s.mu.pending++
	t.placedLocked(s, expiration)
	s.mu.Unlock()
	t.placed(expiration)
	if overdue := t.overdue.Load(); int64(now) > overdue {
		t.nudge(overdue)
	}
	return nil
}

// reserve counts one more pending entry against the maximum.
func (t *store) reserve() error {
	if t.pending.Add(1) > t.maxPending {
		t.pending.Add(-1)
		return fullError(t.maxPending)
	}
	return nil
}

func (t *store) release(n int) {
	if t.maxPending > 0 {
		t.pending.Add(int64(-n))
	}
}

// Cancel takes e out of the timer. It reports whether it did: true means that
// e's task will not run for this Add, false that it has been, or is about to be,
// run or cancelled by somebody else. O(1).
func (t *store) Cancel(e *TaskEntry) bool {
	s := t.shardOf(e)
	s.mu.Lock()
	ok := s.cancelLocked(e)
	s.mu.Unlock()
	if ok {
		t.release(1)
	}
	return ok
}

// CancelAll is Cancel for many: it takes each shard's lock once for a run of
// entries that share it, or for a part of a long run, so that nobody is locked
// out. It returns how many it cancelled. Nil entries are passed over.
func (t *store) CancelAll(entries []*TaskEntry) (n int) {
	for len(entries) > 0 {
		run := 1
		if e := entries[0]; e != nil {
			s := t.shardOf(e)
			run += t.sameShard(s, entries[1:min(len(entries), chunk)])
			s.mu.Lock()
			n += s.cancelAllLocked(entries[:run])
			s.mu.Unlock()
		}
		entries = entries[run:]
	}
	t.release(n)
	return n
}

// sameShard returns how many entries, from the first on, are nil or lie in s.
func (t *store) sameShard(s *shard, entries []*TaskEntry) (n int) {
	for _, e := range entries {
		if e != nil && t.shardOf(e) != s {
			break
		}
		n++
	}
	return n
}

// Pending returns the number of entries that are scheduled, those that are due
// but not yet claimed by a worker included. It takes every shard's lock in turn.
func (t *store) Pending() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += int(s.mu.pending)
		s.mu.Unlock()
	}
	return n
}

// stop refuses new entries and cancels all pending ones, whose tasks it returns.
func (t *store) stop() (unfired []Task) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.mu.stopped = true
		take := func(l *taskList) {
			for !l.empty() {
				e := l.root.next
				s.cancelLocked(e)
				if p, ok := e.task.(*periodic); ok {
					unfired = append(unfired, &p.Handle) // which is what its owner knows
				} else {
					unfired = append(unfired, e.task)
				}
			}
		}
		take(&s.mu.cascade)
		take(&s.mu.due)
		take(&s.mu.young)
		for l := range s.mu.wheel.levels {
			for b := range s.mu.wheel.levels[l].buckets {
				take(&s.mu.wheel.levels[l].buckets[b])
			}
		}
		t.readyLocked(s)
		s.mu.Unlock()
	}
	t.release(len(unfired))
	return unfired
}
