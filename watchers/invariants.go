//go:build invariants

package watchers

import "github.com/delayedop/purgatory/internal/invariants"

// assertLocked asserts what holds whenever the lock of s is released: every list is linked, sorted and counted, lies in
// its bucket, and is not idle; every signalled key is queued; and the counts are right.
func (s *Shard[K]) assertLocked() {
	if s.mu.watched > invariants.Few || s.mu.keys.len > invariants.Few {
		return
	}
	watched, keys, signalled := 0, 0, 0
	for b, l := range s.mu.keys.buckets {
		for ; l != nil; l = l.chain {
			invariants.Assert(l.shard == s && s.mu.keys.bucket(l.hash) == &s.mu.keys.buckets[b], "a key lies in its bucket")
			invariants.Assert(!l.idle(), "a key that is idle has left the map")
			n, last := 0, l.List.First()
			for w := last; w != nil; w = l.Next(w) {
				invariants.Assert(w.List() == &l.List && w.Position() >= last.Position(), "a list is linked, and in order of position")
				if last = w; w.Machine() != nil {
					n++
				}
			}
			invariants.Assert(n == l.Len() && last == l.Last(), "a list knows its length and its end")
			if watched, keys = watched+n, keys+1; l.signalled {
				signalled++
				invariants.Assert(l.behind.before == l && l.before.behind == l, "a signalled key is queued")
			}
		}
	}
	invariants.Assert(watched == int(s.mu.watched) && keys == int(s.mu.keys.len), "a shard knows its watches and its keys")
	invariants.Assert((signalled > 0) == (s.mu.signals.first != nil), "the queue of signals has the signalled keys")
}
