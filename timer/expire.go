package timer

import (
	"math/bits"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
)

// flush moves all entries that have expired by now to due, starts workers for them, and
// reports whether any entry is due. The shards take turns, one hold of the lock each, so that
// what is due in one does not wait for all the work of another. If young entries are left that
// are to be placed by now, then their shard's next is not after now's tick, so that the driver
// flushes again at once.
func (t *store) flush(now time.Duration) (due bool) {
	tick := int64(now) / t.tick
	for more := true; more; {
		more = false
		for s := range t.made {
			if s.next.Load() > tick {
				continue
			}
			s.mu.Lock()
			more = s.flushLocked(tick) || more
			found := !s.mu.due.empty()
			t.readyLocked(s)
			s.mu.Unlock()
			if found {
				due = true
				t.needed(0)
			}
		}
	}
	return due
}

// next returns the earliest tick at which a shard has to be flushed.
func (t *store) next() (expiration int64) {
	expiration = never
	for s := range t.made {
		expiration = min(expiration, s.next.Load())
	}
	return expiration
}

// runDue claims the due entries of one shard one by one, runs each before it claims the next,
// and starts another worker if entries are left. It reports whether a task ran.
//
// It does not claim entries in advance: an entry claimed behind a task that blocks would
// wait although another worker is free, and could not be cancelled.
func (t *store) runDue() (ran bool) {
	ready := t.ready.Load()
	if ready == 0 {
		return false
	}
	// Begin at another shard each time, so that a shard that always has due entries does
	// not keep the others waiting.
	first := int(t.turn.Add(1) & (t.shardCount - 1))
	index := bits.TrailingZeros64(bits.RotateLeft64(ready, -first)) + first
	s := t.shards.Load()[index%maxShards].Load()
	now := int64(0)
	for range runLength {
		s.mu.Lock()
		e, expiration := s.popLocked(&now, t.now)
		t.readyLocked(s)
		s.mu.Unlock()
		t.placed(expiration)
		if e == nil {
			break
		}
		t.release(1)
		ran = true
		if t.waiting() { // before the task, because it may block
			t.needed(0)
		}
		guard.Call(func() { run(e) }, t.panicked)
	}
	return ran
}

// runLength is how many entries a worker runs before it looks at another shard.
const runLength = 32

// waiting reports whether an entry is due and waits for a worker.
func (t *store) waiting() bool {
	return t.ready.Load() != 0
}

// readyLocked sets or clears the ready bit of s.
func (t *store) readyLocked(s *shard) {
	if s.mu.due.empty() {
		t.ready.And(^s.bit)
	} else if t.ready.Load()&s.bit == 0 {
		t.ready.Or(s.bit)
	}
}

// placedLocked publishes that an entry was placed: expiration is the tick at which its
// bucket is to be flushed, 0 if it is due. The caller then releases the shard's lock and
// calls placed.
func (t *store) placedLocked(s *shard, expiration int64) {
	if expiration == 0 {
		t.readyLocked(s)
		return
	}
	s.lowerNextLocked(expiration)
}

// placed starts a worker if expiration is 0, which means that an entry is due, and otherwise
// wakes the driver if it sleeps beyond expiration. The caller holds no lock of the timer.
func (t *store) placed(expiration int64) {
	if expiration < t.wake.Load() {
		t.needed(expiration)
	}
}
