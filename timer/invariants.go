//go:build invariants

package timer

import "github.com/delayedop/purgatory/internal/invariants"

// assertLocked asserts that s is flushed before its first bucket expires, before a young entry is late, and at once if a flush
// has left something.
func (s *shard) assertLocked() {
	_, first, _ := s.mu.wheel.next()
	at := min(s.timeOf(first), s.mu.youngAt)
	if !s.mu.spill.Empty() {
		at = min(at, s.mu.reached)
	}
	invariants.Assert(s.next.Load() <= at, "a shard is flushed before an entry is late")
}
