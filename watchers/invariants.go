//go:build invariants

package watchers

import "github.com/delayedop/purgatory/internal/invariants"

// assertLocked asserts that lists are linked, sorted and counted, and none is empty, when the lock of s is taken.
func (s *shard[K]) assertLocked() {
	watched, keys := 0, 0
	for b := 0; b < len(s.mu.keys.buckets) && s.mu.watched <= 64; b++ {
		for l := s.mu.keys.buckets[b]; l != nil; l = l.chain {
			n, last, ok := 0, l.First(), l.shard == s && l.Len() > 0
			if l.queued {
				s.all.queue.Lock() // it guards the links, also of its neighbours
				ok = ok && l.behind.ahead == l && l.asked.any && !l.walking
				s.all.queue.Unlock()
			}
			for w := last; w != nil; last, w = w, l.Next(w) {
				ok = ok && w.List == &l.List && w.Position >= last.Position
				if w.Machine != nil {
					n++
				}
			}
			invariants.Assert(ok && n == l.Len() && last == l.Last(), "a key has operations, and its list is linked, sorted and counted")
			watched, keys = watched+n, keys+1
		}
	}
	spare := 0
	for x := s.mu.spare; x != nil && x.List == nil && x.Machine == nil; x = x.Next {
		spare++
	}
	ok := spare == s.mu.nspare && (s.mu.watched > 64 || watched == s.mu.watched && keys == int(s.mu.keys.len))
	invariants.Assert(ok, "a shard knows how many watches and keys it has, and spare ones, which refer to no operation")
}
