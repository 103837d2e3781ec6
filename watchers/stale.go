package watchers

import (
	"github.com/delayedop/purgatory/internal/bounded"
	"github.com/delayedop/purgatory/internal/machine"
)

// staleWatch is a watch of an operation that has ended, in a list whose lock was not free.
type staleWatch struct {
	next  *staleWatch
	watch *machine.Watch
}

// lock locks s, and takes out the stale watches: no goroutine that reads a list finds one.
func (s *shard[K]) lock() {
	s.mu.Lock()
	if s.stale.Load() != nil {
		s.drainLocked()
	}
	s.assertLocked()
}

// leave takes w, whose operation ends, out of its list, if it is in one. If the lock is not free, w becomes stale: who
// locks the shard next takes it out, or the purge. (To wait would let the crowd of one key delay the ends of
// another's.) If the limit of such watches is reached, leave waits.
func leave[K comparable](w *machine.Watch) {
	l := listOf[K](w)
	if l == nil {
		return
	}
	s := l.shard
	if !s.mu.TryLock() {
		if bounded.Increment(&s.all.stale, int64(s.all.config.StaleLimit)) {
			stale := &staleWatch{watch: w}
			for stale.next = s.stale.Load(); !s.stale.CompareAndSwap(stale.next, stale); stale.next = s.stale.Load() {
			}
			return
		}
		s.lock()
	}
	s.unlinkLocked(w)
	s.mu.Unlock()
}

func (s *shard[K]) drainLocked() (n int) {
	for w := s.stale.Swap(nil); w != nil; w = w.next {
		s.unlinkLocked(w.watch)
		n++
	}
	s.all.stale.Add(-int64(n))
	return n
}

// Purge takes out the stale watches.
func (w *Watchers[K]) Purge() {
	for s := range w.shards() {
		if s.stale.Load() != nil {
			s.mu.Lock()
			w.purged.Add(int64(s.drainLocked()))
			s.mu.Unlock()
		}
	}
}
