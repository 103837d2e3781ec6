package watchers

import (
	"time"

	"github.com/delayedop/purgatory/operation"
)

// Waiting is an operation that was found waiting.
type Waiting[K comparable] struct {
	Machine *operation.Machine
	Key     K // the one that it was found under
	Hash    uint64
	Keys    int // how many it waits for
	Start   time.Duration
}

// Sample appends up to n operations that wait in s: the first of each key, and more of
// each if there are few keys. With many keys it looks at some of them, which ones
// depends on turn. It looks at O(n) places, whatever waits.
func (s *Shard[K]) Sample(out []Waiting[K], n int, turn uint) []Waiting[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.mu.keys
	if t.len == 0 {
		return out
	}
	perList := max(1, n/(2*int(t.len))) // two lists a key
	for i := range uint(min(len(t.buckets), 8*n)) {
		for l := t.buckets[(turn+i)&uint(len(t.buckets)-1)]; l != nil; l = l.chain {
			for _, list := range l.lists() {
				w := list.First()
				for left := perList; w != nil && left > 0; w = list.Next(w) {
					left-- // markers count: there may be many of them
					if n == 0 {
						return out
					}
					if m := w.Machine(); m != nil && m.Outcome() == operation.Pending { // it may wait for the purge
						n--
						out = append(out, Waiting[K]{Machine: m, Key: l.key, Hash: l.hash, Keys: m.Keys(), Start: m.Start()})
					}
				}
			}
		}
	}
	return out
}
