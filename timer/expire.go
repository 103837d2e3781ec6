package timer

import (
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/guard"
)

// flush moves all entries that have expired by now to due, starts workers for them, and
// reports whether any entry is due. It goes from shard to shard, one hold of the lock each, so that
// what is due in one does not wait for all the work of another. If there are still young entries that
// should be in the wheel by now, then their shard's next is not after now, so that the driver
// flushes again at once.
func (t *store) flush(now time.Duration) (due bool) {
	for more := true; more; {
		more = false
		for s := range t.made {
			if s.next.Load() > int64(now) {
				continue
			}
			s.mu.Lock()
			more = s.flushLocked(int64(now)) || more
			at := int64(never)
			if !s.mu.due.Empty() {
				at, due = 0, true
			}
			t.release(s, at)
		}
	}
	return due
}

// next returns the earliest time at which a shard has to be flushed.
func (t *store) next() (at int64) {
	at = never
	for s := range t.made {
		at = min(at, s.next.Load())
	}
	return at
}

// runDue claims the due entries of one shard one by one, runs each before it claims the next,
// and starts another worker if more entries are due. It reports whether a task ran.
//
// It does not claim entries in advance: an entry claimed behind a task that blocks would
// wait although another worker is free, and could not be cancelled. See
// docs/decisions.md#due-entries-are-claimed-one-by-one.
func (t *store) runDue() (ran bool) {
	s := t.readyShard()
	if s == nil {
		return false
	}
	more := true
	for n := 0; n < runLength && more; n++ {
		s.mu.Lock()
		e, at := t.popLocked(s)
		more = !s.mu.due.Empty()
		t.release(s, at)
		if e == nil {
			break
		}
		ran = true
		if t.anyReady() { // before the task, because it may block
			t.clock.need(0)
		}
		guard.Call(func() { run(e) }, t.panicked)
	}
	return ran
}

// runLength is how many entries a worker runs before it goes to another shard.
const runLength = 32

// popLocked claims one due entry of s for the caller to run; nil if it found none. It puts an
// entry whose deadline was extended back into the wheel; at is the earliest time at
// which the driver is needed for one of those, never if there are none. It reads the clock only
// if the latest reading that s knows does not show that the deadline has passed, and once.
func (t *store) popLocked(s *shard) (e *entry.Entry, at int64) {
	at = never
	for i := 0; i < chunk && !s.mu.due.Empty(); i++ {
		e := s.mu.due.First()
		if i == 0 && e.At > s.mu.reached {
			s.mu.reached = max(int64(t.clock.Now()), 1) // the earliest deadline, 1 ns, has passed at 0, too
		}
		if e.At <= s.mu.reached {
			t.removeLocked(s, e, entry.ExpiredBit)
			return e, at
		}
		// If the wheel has reached the deadline's tick, and this reading of the clock has not, the
		// entry is due again, and the next call compares it anew.
		if put := s.lowerLocked(&s.mu.due); put != 0 {
			at = min(at, put)
		}
	}
	return nil, at
}

// anyReady reports whether an entry is due.
func (t *store) anyReady() bool { return t.ready.Load() > 0 }

// readyShard returns a shard that is ready, nil if there is none. It begins at another shard each
// time, so that a shard that always has due entries does not keep the others waiting.
func (t *store) readyShard() *shard {
	if !t.anyReady() {
		return nil
	}
	from := int(t.from.Add(1))
	for i := range t.shards {
		if s := t.shards[(from+i)%len(t.shards)].Load(); s != nil && s.ready.Load() {
			return s
		}
	}
	return nil
}
