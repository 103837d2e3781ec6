//go:build invariants

package timer

import "github.com/delayedop/purgatory/internal/invariants"

// assertLocked asserts what holds whenever the lock of s is released: s is flushed before its first bucket expires, and
// before a young entry is late.
func (s *shard) assertLocked() {
	expiration, _, _ := s.mu.wheel.next()
	invariants.Assert(s.next.Load() <= min(expiration, s.youngTick()), "a shard is flushed before an entry is late")
}
