package timer

import (
	"fmt"
	"math"

	"github.com/delayedop/purgatory/internal/bounded"
	"github.com/delayedop/purgatory/internal/entry"
)

// admitLocked accepts e, which is to be scheduled in s, or returns the error that AddAt
// returns. It counts e against the limit last, when no other error is possible. If it
// counted e first and then refused it, another entry could meanwhile be refused with
// ErrFull although there is room.
func (t *store) admitLocked(s *shard, e *entry.Entry) error {
	if s.mu.stopped {
		return ErrStopped
	}
	claimed, err := t.claimLocked(e)
	if err == nil && e.Next != nil {
		err = ErrScheduled
	}
	if err == nil && !t.reserveLocked(e) {
		err = fmt.Errorf("%w: the maximum is %d", ErrFull, t.maxPending)
	}
	if err != nil && claimed {
		e.Disown()
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
func (t *store) claimLocked(e *entry.Entry) (claimed bool, err error) {
	if e.OwnedBy(t.id) {
		return false, nil
	}
	if owner := e.Claim(t.id); owner != t.id {
		return false, fmt.Errorf("%w: it was added to timer %d, and this is timer %d", ErrForeign, owner, t.id)
	}
	return true, nil
}

// reserveLocked counts one more pending entry and returns true, unless the limit is reached.
// The limit does not apply to the next run of a periodic task.
func (t *store) reserveLocked(e *entry.Entry) bool {
	limit := t.maxPending
	if _, ok := e.Owner.(*periodic); ok && e.At != 0 {
		limit = math.MaxInt64
	}
	return t.maxPending == 0 || bounded.Increment(&t.pending, limit)
}

// release counts n pending entries less.
func (t *store) release(n int) {
	if t.maxPending > 0 {
		t.pending.Add(int64(-n))
	}
}
