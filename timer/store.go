package timer

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
)

// store is what SystemTimer and ManualTimer share: the sharded wheels and every
// operation on entries. It knows no clock and no goroutine; it tells its owner,
// through two hooks, that the clock is needed earlier or that something is due.
type store struct {
	tick   int64
	shards []shard

	// ready has bit i set whenever shards[i].mu.due is not empty, and until a
	// worker has looked if the last due entry was cancelled. Written under that
	// shard's lock.
	ready atomic.Uint64
	turn  atomic.Uint32 // where the next worker begins to look for a bit

	maxPending int64
	pending    atomic.Int64 // counted only if maxPending > 0

	panicked guard.Handler

	needed func(expiration int64) // the clock is needed at this tick
	dueNow func()                 // something became due without the clock
}

func (t *store) init(cfg config) {
	t.tick = int64(cfg.tick)
	t.maxPending = int64(cfg.maxPending)
	t.panicked = cfg.panicked
	t.shards = make([]shard, cfg.shards)
	for i := range t.shards {
		t.shards[i].init(i, cfg.tick, cfg.wheelSize)
	}
}

// defaultShards is eight for each processor, a power of two, at most 64: enough
// that two processors rarely meet, few enough for one word of ready bits.
func defaultShards() int {
	n := min(8*runtime.GOMAXPROCS(0), 64)
	return 1 << bits.Len(uint(n-1))
}

// shardOf returns e's shard, and assigns it the first time. It is a hash of the
// 8 KiB page that e lies on: a processor allocates from pages of its own, so
// entries that one processor adds fall into one shard for a while, and those of
// another mostly into another; nothing random has to be drawn. (The address is
// used once, so it would not matter if objects moved.)
func (t *store) shardOf(e *TaskEntry) *shard {
	if e.where == 0 {
		page := uint64(uintptr(unsafe.Pointer(e))) >> 13
		hash := page * 0x9e3779b97f4a7c15 // 2^64/φ (Knuth, multiplicative hashing)
		e.where = 1 + uint32(hash>>32)&uint32(len(t.shards)-1)
	}
	return &t.shards[e.where-1]
}

// AddAt schedules e to expire at deadline, a time on the timer's clock (see
// Deadline). now is a recent reading of Now. A deadline in the past expires at
// once, though never on the caller's goroutine. Errors: ErrScheduled, ErrFull,
// ErrStopped, ErrNoTask; e is then not scheduled.
//
// It takes O(levels), and one lock that is held for a few dozen instructions.
func (t *store) AddAt(e *TaskEntry, now, deadline time.Duration) error {
	if e.task == nil {
		return ErrNoTask
	}
	if err := t.reserve(); err != nil {
		return err
	}
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
	s.catchUpLocked(int64(now))
	deadline = min(max(deadline, 1), Never)
	e.deadline.Store(int64(deadline))
	expiration := s.placeLocked(e, int64(deadline))
	s.mu.pending++
	t.placedLocked(s, expiration)
	s.mu.Unlock()
	t.placed(expiration)
	return nil
}

// placedLocked publishes, under the shard's lock, what placed acts on after it.
func (t *store) placedLocked(s *shard, expiration int64) {
	if expiration == 0 {
		t.readyLocked(s)
	} else if expiration < s.next.Load() {
		s.next.Store(expiration)
	}
}

func (t *store) placed(expiration int64) {
	if expiration == 0 {
		t.dueNow()
	} else {
		t.needed(expiration)
	}
}

// readyLocked makes s's ready bit say whether anything is due there.
func (t *store) readyLocked(s *shard) {
	sched.Yield()
	if s.mu.due.empty() {
		t.ready.And(^s.bit)
	} else if t.ready.Load()&s.bit == 0 {
		t.ready.Or(s.bit)
	}
}

// reserve counts one more pending entry against the maximum, if there is one.
func (t *store) reserve() error {
	if t.maxPending > 0 && t.pending.Add(1) > t.maxPending {
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
	if e.deadline.Load() <= 0 {
		return false
	}
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
// entries that share it. It returns how many it cancelled. Nil entries are
// passed over.
func (t *store) CancelAll(entries []*TaskEntry) (n int) {
	var s *shard
	for _, e := range entries {
		if e == nil || e.deadline.Load() <= 0 {
			continue
		}
		if of := t.shardOf(e); of != s {
			if s != nil {
				s.mu.Unlock()
			}
			s = of
			s.mu.Lock()
		}
		if s.cancelLocked(e) {
			n++
		}
	}
	if s != nil {
		s.mu.Unlock()
	}
	t.release(n)
	return n
}

// Extend moves the deadline of a scheduled e, a time on the timer's clock, and
// reports whether it was in time: true means that e will not expire before the
// new deadline; false that it has expired, is expiring, was cancelled, or was
// never added. A later deadline costs one atomic operation: the wheel learns of
// it when the old one passes. An earlier one moves e in its wheel.
func (t *store) Extend(e *TaskEntry, deadline time.Duration) bool {
	for {
		sched.Yield()
		old := e.deadline.Load()
		if old <= 0 {
			return false
		}
		if int64(deadline) < old {
			return t.shorten(e, int64(deadline))
		}
		if e.deadline.CompareAndSwap(old, int64(deadline)) {
			return true
		}
	}
}

// shorten sets an earlier deadline. Under the shard's lock nobody else can
// expire or cancel e; only Extend may still race, and then the last one wins.
func (t *store) shorten(e *TaskEntry, deadline int64) bool {
	s := t.shardOf(e)
	s.mu.Lock()
	if e.next == nil {
		s.mu.Unlock()
		return false
	}
	e.deadline.Store(deadline)
	s.unlinkLocked(e)
	expiration := s.placeLocked(e, deadline)
	t.placedLocked(s, expiration)
	s.mu.Unlock()
	t.placed(expiration)
	return true
}

// flush moves everything that has expired by now towards its workers and
// reports whether anything became due.
func (t *store) flush(now time.Duration) (due bool) {
	tick := int64(now) / t.tick
	for i := range t.shards {
		s := &t.shards[i]
		if sched.Yield(); s.next.Load() > tick {
			continue
		}
		for more := true; more; {
			s.mu.Lock()
			more = s.flushLocked(tick, flushChunk)
			found := !s.mu.due.empty()
			t.readyLocked(s)
			s.mu.Unlock()
			if found {
				due = true
				t.dueNow()
			}
		}
	}
	return due
}

// next returns the earliest tick at which the clock is needed.
func (t *store) next() (expiration int64) {
	expiration = never
	for i := range t.shards {
		sched.Yield()
		expiration = min(expiration, t.shards[i].next.Load())
	}
	return expiration
}

// runDue claims some due entries and runs their tasks. It reports whether
// there were any.
func (t *store) runDue(now time.Duration, more func()) bool {
	sched.Yield()
	ready := t.ready.Load()
	if ready == 0 {
		return false
	}
	// Begin at another shard each time: none waits for the others to run dry.
	first := int(t.turn.Add(1)) & 63
	s := &t.shards[(bits.TrailingZeros64(bits.RotateLeft64(ready, -first))+first)&63]
	var batch [popChunk]*TaskEntry
	s.mu.Lock()
	n, expiration := s.popLocked(int64(now), batch[:])
	t.readyLocked(s)
	s.mu.Unlock()
	if expiration != never {
		t.needed(expiration)
	}
	t.release(n)
	if t.waiting() {
		more()
	}
	guard.Each(n, func(i int) { batch[i].task.RunTask(batch[i]) }, t.panicked)
	return true
}

// waiting reports whether something is due and waits for a worker.
func (t *store) waiting() bool {
	sched.Yield()
	return t.ready.Load() != 0
}

// Pending returns the number of entries that are scheduled, those that are due
// but not yet claimed by a worker included. It takes every shard's lock in turn.
func (t *store) Pending() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += s.mu.pending
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
				unfired = append(unfired, e.task)
			}
		}
		take(&s.mu.cascade)
		take(&s.mu.due)
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
