package watchers

import "github.com/delayedop/purgatory/internal/machine"

// Ending is a batch of operations that their holder is about to end: Machines[i] will
// end with Outcomes[i].
type Ending struct {
	Machines []*machine.Machine
	Outcomes []machine.Outcome
}

// fewWatches is the largest number of watches beyond the first that Leave handles while
// it holds the lock for the batch. Those of an operation with more are left to
// leaveElsewhere, which releases the lock in between.
const fewWatches = 8

// Leave takes the operations of a batch, which the caller holds, out of all their lists
// and counts them as ended in s. s is the shard of the key that was checked, or of the
// operation's first key. Leave takes the lock of s once for the batch.
//
// A watch in another shard whose lock is not free may be left to [Watchers.Purge].
func (s *Shard[K]) Leave(batch *Ending) {
	elsewhere := false      // some watches are left for leaveElsewhere
	now := s.observer.Now() // one reading of the clock for the batch
	s.mu.Lock()
	for i, m := range batch.Machines {
		o := batch.Outcomes[i]
		s.mu.counts[o]++
		if s.observer != nil {
			s.observer.Ended(m, o, now)
		}
		if !s.leaveLocked(m.First(), o) {
			elsewhere = true
		}
		if extra := m.Extra(); len(extra) > fewWatches {
			elsewhere = true
		} else if extra != nil {
			// The last to go is the first of the array, in the shard that has lent the array.
			all := true
			for j := len(extra) - 1; j > 0 || j == 0 && all; j-- {
				all = s.leaveLocked(&extra[j], o) && all
			}
			if all {
				s.mu.spare.Take(m)
			} else {
				elsewhere = true
			}
		}
	}
	closed := s.mu.closed
	s.mu.Unlock()
	if elsewhere {
		leaveElsewhere[K](batch, closed)
	}
}

// leaveLocked unlinks w if it is in this shard, and reports whether it is unlinked.
func (s *Shard[K]) leaveLocked(w *machine.Watch, o machine.Outcome) bool {
	list := w.List()
	if list == nil {
		return true
	}
	l := list.Owner().(*keyList[K])
	if l.shard != s {
		return false
	}
	s.unlinkLocked(l, w, o)
	return true
}

// leaveElsewhere unlinks the watches that Leave has not unlinked. If the lock of a shard
// is not free, it leaves the watch to Purge, with two exceptions. If the limit of such
// watches is reached, or if the map is closed and there may be no further purge, it
// waits for the lock.
func leaveElsewhere[K comparable](batch *Ending, closed bool) {
	l := leaving[K]{closed: closed}
	for i, m := range batch.Machines {
		o := batch.Outcomes[i]
		extra := m.Extra() // not nil if Leave has not unlinked all of these watches
		free := extra != nil
		for j := len(extra) - 1; j >= 0; j-- {
			free = l.unlink(&extra[j], o) && free
		}
		if free && l.held != nil { // usually the shard that has lent the array
			l.held.mu.spare.Take(m)
		}
		l.unlink(m.First(), o)
	}
	l.unlock()
}

// leaving unlinks watches in several shards. It holds the lock of at most one shard at a
// time, and keeps it for the next watch, which may be in the same shard.
type leaving[K comparable] struct {
	held   *Shard[K] // the shard whose lock is held, or nil
	steps  int       // watches unlinked since that lock was taken
	closed bool
}

// maxSteps is the largest number of watches that leaving unlinks before it releases the
// lock.
const maxSteps = 128

// unlink unlinks w or leaves it to Purge. It reports whether it has unlinked w.
func (l *leaving[K]) unlink(w *machine.Watch, o machine.Outcome) (unlinked bool) {
	if w.List() == nil {
		return true
	}
	list := w.List().Owner().(*keyList[K])
	of := list.shard
	if of != l.held || l.steps == maxSteps {
		l.unlock()
		if !of.mu.TryLock() {
			if !l.closed && of.postpone(w, o) {
				return false
			}
			of.mu.Lock()
		}
		l.held, l.steps = of, 0
	}
	l.steps++
	of.unlinkLocked(list, w, o)
	return true
}

func (l *leaving[K]) unlock() {
	if l.held != nil {
		l.held.mu.Unlock()
		l.held = nil
	}
}
