package watchers

import "github.com/delayedop/purgatory/internal/machine"

// Sampled is a pending operation, and the key under which it was found.
type Sampled[K comparable] struct {
	*machine.Machine
	Key K
}

// Sample appends up to n pending operations to out: the first of each key, or, of many keys, of those that from
// selects.
func (s *Shard[K]) Sample(out []Sampled[K], n int, from uint) []Sampled[K] {
	s.lock()
	defer s.unlock()
	t := &s.mu.keys
	perKey := max(1, n/max(1, int(t.len)))
	for i := range uint(min(len(t.buckets), 8*n)) {
		for l := t.buckets[(from+i)&uint(len(t.buckets)-1)]; l != nil; l = l.chain {
			rest := perKey
			for w := l.First(); w != nil && rest > 0; w = l.Next(w) {
				if n == 0 {
					return out
				}
				if m := w.Machine(); m != nil { // else it is a mark
					rest--
					n--
					out = append(out, Sampled[K]{m, l.key})
				}
			}
		}
	}
	return out
}
