package watchers

import (
	"github.com/delayedop/purgatory/internal/bounded"
	"github.com/delayedop/purgatory/internal/machine"
)

// staleWatch is a watch that is still in its list although its operation ends, with outcome: the lock of the
// list was not free. The operation has several keys.
type staleWatch struct {
	*machine.Watch
	outcome machine.Outcome // the operation may not be settled yet
}

// unlock releases the lock of s. If watches have become stale because the lock was held, it takes them
// out. Whoever takes the lock releases it by unlock, but for those who take it to do just that.
//
// So an operation that has ended stays in a list for as long as one hold of the lock:
//
//  1. A goroutine that adds a stale watch sets hasStale, and then tries the lock once more.
//  2. If that fails, another goroutine holds the lock, and has yet to call unlock.
//  3. unlock first releases the lock and then reads hasStale. So it finds hasStale set, and takes
//     the watches out, unless a third goroutine holds the lock by then; back to 2.
func (s *Shard[K]) unlock() {
	s.release()
	if s.hasStale.Load() != 0 {
		s.takeStale()
	}
}

// release unlocks s, and tells the workers if a key was queued meanwhile.
func (s *Shard[K]) release() {
	s.assertLocked()
	kick := s.mu.kick
	if kick {
		s.mu.kick = false
	}
	s.mu.Unlock()
	if kick {
		s.all.config.Kick()
	}
}

// takeStale takes out the stale watches, as long as no other goroutine holds the
// lock.
func (s *Shard[K]) takeStale() {
	for s.hasStale.Load() != 0 && s.mu.TryLock() {
		s.unlinkStaleLocked()
		s.release()
	}
}

// addStale has the goroutine that holds the lock take out w, a watch in this shard of an operation that is
// ending with o. It returns false, and does nothing, if the limit of such
// watches is reached.
func (s *Shard[K]) addStale(w *machine.Watch, o machine.Outcome) bool {
	if !bounded.Increment(&s.all.stale, int64(s.all.config.StaleLimit)) {
		return false
	}
	s.stale.Lock()
	s.stale.watches = append(s.stale.watches, staleWatch{w, o})
	s.hasStale.Store(1)
	s.stale.Unlock()
	s.takeStale()
	return true
}

// maxSteps is the largest number of watches that a goroutine unlinks before it releases the
// lock.
const maxSteps = 128

// unlinkStaleLocked unlinks stale watches, up to maxSteps of them, and returns their number.
func (s *Shard[K]) unlinkStaleLocked() (n int) {
	s.stale.Lock()
	n = min(len(s.stale.watches), maxSteps)
	rest := s.stale.watches[:len(s.stale.watches)-n]
	for i, w := range s.stale.watches[len(rest):] {
		s.unlinkLocked(w.List().Host().(*keyList[K]), w.Watch, w.outcome, true)
		s.stale.watches[len(rest)+i] = staleWatch{}
	}
	if s.stale.watches = rest; len(rest) == 0 {
		s.hasStale.Store(0)
	}
	s.stale.Unlock()
	s.all.stale.Add(-int64(n))
	return n
}

// Purge unlinks the stale watches, and returns their number. Its cost depends on that number and on the number of shards, not on
// the number of pending operations.
func (w *Watchers[K]) Purge() (purged int) {
	if w.stale.Load() == 0 {
		return 0
	}
	for s := range w.Shards() {
		for s.hasStale.Load() != 0 {
			s.mu.Lock()
			purged += s.unlinkStaleLocked()
			s.release()
		}
	}
	return purged
}

// Stale returns the number of stale watches.
func (w *Watchers[K]) Stale() int { return int(w.stale.Load()) }
