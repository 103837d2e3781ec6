package timer

import (
	"fmt"
	"math"

	"github.com/delayedop/purgatory/internal/bounded"
	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/identity"
)

// admitLocked accepts e, which is to be scheduled in s, or returns the error that AddAt
// returns. It makes t the owner of e unless it is that already.
//
// Two timers never own the same entry:
//
//  1. A timer becomes the owner by a compare-and-swap of the owner from 0.
//  2. A timer that finds another owner reads and writes nothing else of the entry.
//  3. A timer that refuses an entry sets the owner back to 0 with the same hold of the
//     shard's lock, and before it has written anything else. So a goroutine that holds that
//     lock and finds t the owner has the entry to itself.
//
// It counts e against the limit last, when no other error is possible. If it counted e first
// and then refused it, another entry could meanwhile be refused with ErrFull although there
// is room. The limit does not apply to the next run of a periodic handle.
func (t *store) admitLocked(s *shard, e *entry.Entry) error {
	owned := t.ownsLocked(e)
	switch {
	case ownerOf(e) == nil && !e.OfOperation():
		return ErrNoTask
	case s.mu.stopped:
		return ErrStopped
	case owned && e.Next != nil:
		return ErrScheduled
	case !owned && !e.Claim(t.id):
		return fmt.Errorf("%w: it was added to timer %d, and this is timer %d", ErrForeign, identity.In(e.Word.Load()), t.id)
	}
	limit := t.maxPending
	if _, ok := ownerOf(e).(*periodic); ok && e.At != 0 {
		limit = math.MaxInt64
	}
	if t.maxPending != 0 && !bounded.Increment(&t.pending, limit) {
		if !owned {
			e.Disown()
		}
		return fmt.Errorf("%w: the maximum is %d", ErrFull, t.maxPending)
	}
	return nil
}

// release counts n pending entries less.
func (t *store) release(n int) {
	if t.maxPending > 0 {
		t.pending.Add(int64(-n))
	}
}
