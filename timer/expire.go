package timer

import (
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/guard"
)

// flush moves all entries that have expired by now to due, starts workers, and reports whether any is due. It holds one
// shard's lock at a time, for up to chunk steps.
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
		if more { // it takes long, and others have expired meanwhile
			now = t.clock.read()
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

// runDue claims due entries of one shard, runs each (docs/internals/decisions.md#due-entries-are-claimed-one-by-one),
// and starts another worker if more are due. It returns after a panic.
func (t *store) runDue() (ran bool) {
	s := t.readyShard()
	if s == nil {
		return false
	}
	defer guard.Recover(t.panicked)
	for n, more := 0, true; n < runLength && more; n++ {
		s.mu.Lock()
		e, at := t.popLocked(s)
		if more = !s.mu.due.Empty(); more && at == never { // nothing to publish: s stays ready
			s.mu.Unlock()
		} else {
			t.release(s, at)
		}
		if e == nil {
			break
		}
		ran = true
		if t.anyReady() { // before the task, because it may block
			t.clock.need(0)
		}
		if e.OfOperation() {
			entry.Expire(e)
		} else {
			task := taskEntry(e)
			task.bound.RunTask(task)
		}
	}
	return ran
}

// runLength is how many entries a worker runs before it goes to another shard.
const runLength = 32

// popLocked claims one due entry of s; nil if it found none. It puts extended entries back, and at is when the first of
// their buckets expires.
func (t *store) popLocked(s *shard) (e *entry.Entry, at int64) {
	at = never
	for i := 0; i < chunk && !s.mu.due.Empty(); i++ {
		e := s.mu.due.First()
		if i == 0 && e.At > s.mu.reached {
			s.mu.reached = max(int64(t.clock.read()), 1) // 1 ns is the deadline of what is due at 0
		}
		if e.At <= s.mu.reached {
			t.removeLocked(s, e)
			e.At |= entry.ExpiredBit
			return e, at
		}
		if put := s.lowerLocked(&s.mu.due); put != 0 {
			at = min(at, put)
		}
	}
	return nil, at
}

func (t *store) anyReady() bool { return t.ready.Load() > 0 }

// readyShard returns a shard that is ready, looking at another one first each time, or nil.
func (t *store) readyShard() *shard {
	from := int(t.from.Add(1))
	for i := range t.shards {
		if s := t.shards[(from+i)&(len(t.shards)-1)].Load(); s != nil && s.ready.Load() {
			return s
		}
	}
	return nil
}

// Due returns how many entries have expired and wait for a worker, and since when the first does: lower bounds,
// from up to 128 entries of each shard.
func (t *store) Due() (n int, oldest time.Duration) {
	now := max(t.clock.read(), 1) // as in popLocked
	for s := range t.made {
		s.mu.Lock()
		seen := 0
		for e := range s.mu.due.All {
			if seen++; seen > chunk {
				break
			}
			if late := now - time.Duration(e.At); late >= 0 { // otherwise it was extended
				n++
				oldest = max(oldest, late)
			}
		}
		s.mu.Unlock()
	}
	return n, oldest
}
