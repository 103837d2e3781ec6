//go:build invariants

package timer

import "github.com/delayedop/purgatory/internal/invariants"

// assertLocked asserts that s is flushed before its first bucket expires, and before a young entry is late.
func (s *shard) assertLocked() {
	_, first, _ := s.mu.wheel.next()
	if !s.mu.spill.Empty() {
		first = s.mu.wheel.now
	}
	invariants.Assert(s.next.Load() <= min(s.timeOf(first), s.youngTime()), "a shard is flushed before an entry is late")
}
