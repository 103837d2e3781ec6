//go:build invariants

package timer

import "github.com/delayedop/purgatory/internal/invariants"

// assertLocked asserts what holds whenever the lock of s is released: every list is linked and counted, the bitmaps say
// which buckets have entries, and the next flush comes before the first bucket expires and before a young entry is late.
func (s *shard) assertLocked() {
	if s.mu.pending > invariants.Few {
		return
	}
	pending := 0
	filled := func(l *taskList, after int64) bool {
		for e := l.root.Next; e != &l.root; e = e.Next {
			invariants.Assert(e.Next.Prev == e && e.At > after, "an entry in a list is linked, and due later")
			pending++
		}
		return !l.empty()
	}
	filled(&s.mu.due, 0)
	filled(&s.mu.young, s.mu.youngAt+s.far/2)
	for _, level := range s.mu.wheel.levels {
		for i := range level.buckets {
			invariants.Assert(filled(&level.buckets[i], 0) == (level.filled[i>>6]>>(i&63)&1 == 1), "the bitmap says which buckets have entries")
		}
	}
	expiration, _ := s.mu.wheel.next()
	invariants.Assert(pending == int(s.mu.pending), "a shard knows its entries")
	invariants.Assert(s.next.Load() <= min(expiration, s.youngTick()), "a flush comes before the first bucket expires")
}
