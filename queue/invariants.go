//go:build invariants

package queue

import (
	"github.com/delayedop/purgatory/internal/invariants"
	"github.com/delayedop/purgatory/internal/sched"
)

// assertLocked asserts what holds whenever the lock is released, in O(kinds).
func (q *Queue[T]) assertLocked() {
	units := 0
	for _, k := range q.mu.kinds {
		units += k.units
		invariants.Assert(q.units || k.units == k.items.n, "as many items of a kind are in line as are counted")
		invariants.Assert(k == &q.mu.main || k.units > 0 || k.line.n > 0, "a kind is kept that is empty")
		if x := k.line.next(); x != nil {
			w := x.of
			gone := w.gone != nil && sched.Closed(w.gone) || w.deadline <= q.timer.Now()
			invariants.Assert(gone || k.units < w.n, "the next in line can be served")
			invariants.Assert(len(w.spots) > 0, "one that is over stands in line")
		}
	}
	invariants.Assert(units == q.mu.kept, "units of all kinds add up")
	invariants.Assert(q.mu.closed == nil || q.mu.waiting == 0, "nobody waits in a queue that is closed")
}
