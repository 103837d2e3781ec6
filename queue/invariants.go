//go:build invariants

package queue

import (
	"github.com/delayedop/purgatory/internal/invariants"
	"github.com/delayedop/purgatory/internal/sched"
)

// assertLocked asserts what holds whenever the lock is released, in O(kinds).
func (q *Queue[T]) assertLocked() {
	units := 0
	check := func(k *kind[T]) {
		units += k.units
		if !q.units {
			invariants.Assert(k.units == k.items.n, "as many items of a kind are in line as are counted")
		}
		if x := k.line.first(); x != nil {
			w := x.of
			gone := w.gone != nil && sched.Closed(w.gone) || w.deadline <= q.timer.Now()
			invariants.Assert(gone || k.units < w.n, "the first in line can be served")
			invariants.Assert(!w.over, "one that is over stands in line")
		}
	}
	check(&q.mu.main)
	for name, k := range q.mu.kinds {
		invariants.Assert(k.name == name && (k.units > 0 || k.line.n > 0), "a kind is kept that is empty")
		check(k)
	}
	invariants.Assert(units == q.mu.kept, "units of all kinds add up")
	invariants.Assert(q.mu.closed == nil || q.mu.waiting == 0, "nobody waits in a queue that is closed")
}
