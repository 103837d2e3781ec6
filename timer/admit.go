package timer

import (
	"fmt"
	"math"

	"github.com/delayedop/purgatory/internal/bounded"
	"github.com/delayedop/purgatory/internal/identity"
	"github.com/delayedop/purgatory/internal/sched"
)

// admitLocked accepts e, which is to be scheduled in s, or returns the error that AddAt
// returns. It counts e against the limit last, when no other error is possible. If it
// counted e first and then refused it, another entry could meanwhile be refused with
// ErrFull although there is room.
func (t *store) admitLocked(s *shard, e *TaskEntry) error {
	if s.mu.stopped {
		return ErrStopped
	}
	claimed, err := t.claimLocked(e)
	if err == nil && e.next != nil {
		err = ErrScheduled
	}
	if err == nil && !t.reserveLocked(e) {
		err = fmt.Errorf("%w: the maximum is %d", ErrFull, t.maxPending)
	}
	if err != nil && claimed {
		e.word.And(^uint64(identity.Half &^ (1<<identity.Shift - 1)))
	}
	return err
}

// claimLocked makes t the owner of e, unless it is that already, and reports whether it
// changed the owner. It fails if e belongs to another timer.
//
// Two timers never own the same entry:
//
//  1. A timer becomes the owner by a compare-and-swap of the owner from 0.
//  2. A timer that finds another owner reads and writes nothing else of the entry.
//  3. admitLocked sets the owner back to 0 with the same hold of the shard's lock, and
//     before it has written anything else. So a goroutine that holds that lock and finds
//     t the owner has the entry to itself.
func (t *store) claimLocked(e *TaskEntry) (claimed bool, err error) {
	for !t.ownsLocked(e) {
		word := e.word.Load()
		if owner := identity.In(word); owner != 0 {
			return false, fmt.Errorf("%w: it was added to timer %d, and this is timer %d", ErrForeign, owner, t.id)
		}
		if sched.Yield(); e.word.CompareAndSwap(word, word|uint64(t.id)<<identity.Shift) {
			return true, nil
		}
	}
	return false, nil
}

// reserveLocked counts one more pending entry and returns true, unless the limit is reached.
// The limit does not apply to the next run of a periodic task.
func (t *store) reserveLocked(e *TaskEntry) bool {
	limit := t.maxPending
	if _, ok := e.task.(*periodic); ok && e.deadline != 0 {
		limit = math.MaxInt64
	}
	return t.maxPending == 0 || bounded.Increment(&t.pending, limit)
}

// release counts n pending entries less.
func (t *store) release(n int) {
	if t.maxPending > 0 {
		sched.Yield()
		t.pending.Add(int64(-n))
	}
}
