package timer

import (
	"math/bits"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
)

// flush moves everything that has expired by now towards its workers, then places some of
// the young, and reports whether anything became due. If it has left young ones for which
// it is time, next says so.
func (t *store) flush(now time.Duration) (due bool) {
	tick := int64(now) / t.tick
	move := func(step func(s *shard) (more bool)) {
		for i := range t.shards {
			s := &t.shards[i]
			if sched.Yield(); s.next.Load() > tick {
				continue
			}
			for more := true; more; {
				s.mu.Lock()
				more = step(s)
				found := !s.mu.due.empty()
				t.readyLocked(s)
				s.mu.Unlock()
				if found {
					due = true
					t.dueNow()
				}
			}
		}
	}
	move(func(s *shard) bool { return s.flushLocked(tick) })
	share := youngShare
	move(func(s *shard) bool {
		late := int64(now)-s.mu.youngAt >= t.far/2 // some may be due
		if share <= 0 && !late {
			return false
		}
		placed, more := s.placeYoungLocked(tick)
		share -= placed
		return more
	})
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

// runDue claims what is due in one shard, entry by entry, and runs it. It reports
// whether it found a shard to look at, and whether a task ran.
//
// Nothing is claimed ahead of its turn: behind a task that blocks, a claimed entry
// would wait although another worker is free, and could no longer be cancelled.
func (t *store) runDue(more func()) (found, ran bool) {
	sched.Yield()
	ready := t.ready.Load()
	if ready == 0 {
		return false, false
	}
	// Begin at another shard each time: none waits for the others to run dry.
	first := int(t.turn.Add(1)) & (len(t.shards) - 1)
	s := &t.shards[(bits.TrailingZeros64(bits.RotateLeft64(ready, -first))+first)&63]
	now := int64(0)
	for range runLength {
		s.mu.Lock()
		e, expiration := s.popLocked(&now, t.now)
		t.readyLocked(s)
		s.mu.Unlock()
		if expiration != never {
			t.needed(expiration)
		}
		if e == nil {
			break
		}
		t.release(1)
		if t.waiting() {
			more()
		}
		ran = true
		guard.Call(func() { e.task.RunTask(e) }, t.panicked)
	}
	return true, ran
}

// runLength bounds how long a worker stays with one shard.
const runLength = 32

// waiting reports whether something is due and waits for a worker.
func (t *store) waiting() bool {
	sched.Yield()
	return t.ready.Load() != 0
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
	} else if sched.Yield(); expiration < t.wake.Load() {
		t.needed(expiration)
	}
}
