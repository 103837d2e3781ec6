package watchers

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
)

// Sampled describes a pending operation that Sample has found.
type Sampled[K comparable] struct {
	Machine *machine.Machine
	Key     K             // the key under which Sample has found it
	Hash    uint64        // of Key
	Start   time.Duration // on the timer's clock
}

// Sample appends up to n pending operations of s to out: the first ones of each key, and
// more of each key if there are few keys. If there are many keys, Sample reads some
// of them; from selects which. It visits O(n) watches, however many operations wait.
func (s *Shard[K]) Sample(out []Sampled[K], n int, from uint) []Sampled[K] {
	s.mu.Lock()
	defer s.unlock()
	t := &s.mu.keys
	perKey := max(1, n/max(1, int(t.len)))
	for i := range uint(min(len(t.buckets), 8*n)) {
		for l := t.buckets[(from+i)&uint(len(t.buckets)-1)]; l != nil; l = l.chain {
			w := l.First()
			for rest := perKey; w != nil && rest > 0; w = l.Next(w) {
				if l.ordered != nil && w == l.ordered.begin.Element() {
					continue // every such list has it
				}
				rest-- // also for another marker, because there may be many of them
				if n == 0 {
					return out
				}
				if m := w.Machine(); m != nil && m.Outcome() == machine.Pending { // one that has ended is stale
					n--
					out = append(out, Sampled[K]{Machine: m, Key: l.key, Hash: l.hash, Start: m.Start()})
				}
			}
		}
	}
	return out
}
