package watchers

import (
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
)

// postpone leaves w, a watch in this shard of an operation that is ending, to
// Purge. It refuses if as many as may be are waiting for that already.
func (s *Shard[K]) postpone(w *operation.Watch) bool {
	for {
		sched.Yield()
		n := s.all.stale.Load()
		if n >= s.all.staleLimit {
			return false
		}
		if s.all.stale.CompareAndSwap(n, n+1) {
			break
		}
	}
	s.stale.Lock()
	s.stale.watches = append(s.stale.watches, w)
	s.stale.Unlock()
	return true
}

// Purge unlinks the watches that Leave has left behind, and returns how many. It
// looks at nothing else: its cost is what is stale, not what is pending.
func (w *Watchers[K]) Purge() (purged int) {
	if w.stale.Load() == 0 {
		return 0
	}
	for i := range w.shards {
		purged += w.shards[i].purge()
	}
	return purged
}

func (s *Shard[K]) purge() (n int) {
	s.stale.Lock()
	n = len(s.stale.watches)
	s.stale.Unlock()
	if n == 0 {
		return 0
	}
	s.mu.Lock()
	s.stale.Lock()
	for i, w := range s.stale.watches {
		s.unlinkLocked(w, w.Machine().Outcome())
		s.stale.watches[i] = nil
	}
	n = len(s.stale.watches)
	s.stale.watches = s.stale.watches[:0]
	s.stale.Unlock()
	s.mu.Unlock()
	s.all.stale.Sub(int64(n))
	return n
}

// Stale returns the number of watches that wait for Purge.
func (w *Watchers[K]) Stale() int { return int(w.stale.Load()) }
