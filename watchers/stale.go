package watchers

import (
	"github.com/delayedop/purgatory/internal/bounded"
	"github.com/delayedop/purgatory/internal/machine"
)

// staleWatch is a watch of an operation that ends with outcome, left in its list.
type staleWatch struct {
	*machine.Watch
	outcome machine.Outcome // the operation may not be settled yet
}

// unlock releases the lock of s. If watches were left in the lists of s because the lock was
// held, it takes them out. Whoever takes the lock releases it by unlock, but for those who take it to do just that.
//
// So an operation that has ended stays in a list for as long as one hold of the lock:
//
//  1. A goroutine that leaves a watch sets left, and then tries the lock once more.
//  2. If that fails, another goroutine holds the lock, and has yet to call unlock.
//  3. unlock first releases the lock and then reads left. So it finds left set, and takes
//     the watches out, unless a third goroutine holds the lock by then; back to 2.
func (s *Shard[K]) unlock() {
	s.release()
	if s.left.Load() != 0 {
		s.takeLeft()
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

// takeLeft takes out the watches that were left, as long as no other goroutine holds the
// lock.
func (s *Shard[K]) takeLeft() {
	for s.left.Load() != 0 && s.mu.TryLock() {
		s.unlinkLeftLocked()
		s.release()
	}
}

// leave leaves w, a watch in this shard of an operation that is ending with o, to the
// goroutine that holds the lock. It returns false, and does nothing, if the limit of such
// watches is reached.
func (s *Shard[K]) leave(w *machine.Watch, o machine.Outcome) bool {
	if !bounded.Increment(&s.all.stale, int64(s.all.config.StaleLimit)) {
		return false
	}
	s.stale.Lock()
	s.stale.watches = append(s.stale.watches, staleWatch{w, o})
	s.left.Store(1)
	s.stale.Unlock()
	s.takeLeft()
	return true
}

// maxSteps is the largest number of watches that a goroutine unlinks before it releases the
// lock.
const maxSteps = 128

// unlinkLeftLocked unlinks the watches that were left, up to maxSteps of them, and returns
// their number.
func (s *Shard[K]) unlinkLeftLocked() (n int) {
	s.stale.Lock()
	n = min(len(s.stale.watches), maxSteps)
	rest := s.stale.watches[:len(s.stale.watches)-n]
	for i, w := range s.stale.watches[len(rest):] {
		s.unlinkLocked(w.List().Owner().(*keyList[K]), w.Watch, w.outcome)
		s.stale.watches[len(rest)+i] = staleWatch{}
	}
	if s.stale.watches = rest; len(rest) == 0 {
		s.left.Store(0)
	}
	s.stale.Unlock()
	s.all.stale.Add(-int64(n))
	return n
}

// Purge unlinks the watches that [Shard.Leave] has left and no goroutine has taken out, and
// returns their number. Its cost depends on that number and on the number of shards, not on
// the number of pending operations.
func (w *Watchers[K]) Purge() (purged int) {
	if w.stale.Load() == 0 {
		return 0
	}
	for s := range w.Shards() {
		for s.left.Load() != 0 {
			s.mu.Lock()
			purged += s.unlinkLeftLocked()
			s.release()
		}
	}
	return purged
}

// Stale returns the number of watches that were left.
func (w *Watchers[K]) Stale() int { return int(w.stale.Load()) }
