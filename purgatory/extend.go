package purgatory

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

// Extend moves the deadline of a pending op to timeout from now, and reports whether it
// has. If it returns true, op will not expire before the new deadline. If it returns
// false, op has ended, is expiring, is still being registered, or is an operation of
// another purgatory. Extend runs no callback and does not block.
//
// A store of sessions that finds the operation by an id adds it to its map after
// TryCompleteElseWatch, and only if its Outcome is still Pending. It does so under the lock
// under which OnComplete deletes the entry: otherwise an operation that has ended stays in
// the map.
//
// A later deadline, as with a heartbeat, costs one reading of the clock and one lock, and
// does not touch the wheel. An earlier deadline moves op in its wheel. With a timeout of
// zero or less op expires at once, on an expiry worker (on a manual clock: in the next
// AdvanceClock).
func (p *DelayedOperationPurgatory[K]) Extend(op operation.Operation, timeout time.Duration) bool {
	m := machine.Find(op)
	return m != nil && m.AcceptedBy(p.id) && p.timer.Extend(entryOf(m), timer.Deadline(p.timer.Now(), timeout))
}
