// Package bounded counts up to a limit.
package bounded

import "github.com/delayedop/purgatory/internal/sched"

// Increment adds 1 to n unless n is limit or more, and reports whether it did. To add first, and take that back,
// would show others a limit that is not reached.
func Increment(n *sched.Int64, limit int64) bool {
	for {
		old := n.Load()
		if old >= limit {
			return false
		}
		if n.CompareAndSwap(old, old+1) {
			return true
		}
	}
}
