package watchers

import (
	"github.com/delayedop/purgatory/internal/bounded"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
)

// staleWatch is a watch that is left to Purge, of an operation that ends with outcome.
type staleWatch struct {
	*machine.Watch
	outcome machine.Outcome // the operation may not be settled yet
}

// postpone leaves w, a watch in this shard of an operation that is ending with o, to Purge.
// It returns false if the limit of such watches is reached.
func (s *Shard[K]) postpone(w *machine.Watch, o machine.Outcome) bool {
	if !bounded.Increment(&s.all.stale, int64(s.all.config.StaleLimit)) {
		return false
	}
	s.stale.Lock()
	s.stale.watches = append(s.stale.watches, staleWatch{w, o})
	s.stale.Unlock()
	return true
}

// Purge unlinks the watches that [Shard.Leave] has left, and returns their number. Its
// cost depends on that number and on the number of shards, not on the number of pending
// operations.
func (w *Watchers[K]) Purge() (purged int) {
	sched.Yield()
	if w.stale.Load() == 0 {
		return 0
	}
	for _, s := range w.shards {
		purged += s.purge()
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
		s.unlinkLocked(w.List().Owner().(*keyList[K]), w.Watch, w.outcome)
		s.stale.watches[i] = staleWatch{}
	}
	n = len(s.stale.watches)
	s.stale.watches = s.stale.watches[:0]
	s.stale.Unlock()
	s.mu.Unlock()
	sched.Yield()
	s.all.stale.Add(-int64(n))
	return n
}

// Stale returns the number of watches that wait for Purge.
func (w *Watchers[K]) Stale() int { return int(w.stale.Load()) }
