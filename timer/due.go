package timer

import "time"

// Due returns how many entries of t have expired and wait for a worker, and how long ago the
// first deadline of these passed. It reads up to 128 entries in each shard, so both are
// lower bounds if there are more.
func Due(t Timer) (n int, oldest time.Duration) {
	store := t.core()
	now := max(store.clock.Now(), 1) // the earliest deadline is 1 ns, and has passed even at 0
	for s := range store.made {
		s.mu.Lock()
		seen := 0
		for e := range s.mu.due.All {
			if seen++; seen > chunk {
				break
			}
			if late := now - time.Duration(e.At); late >= 0 { // otherwise it was extended
				n++
				oldest = max(oldest, late)
			}
		}
		s.mu.Unlock()
	}
	return n, oldest
}
