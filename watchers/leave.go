package watchers

import "github.com/delayedop/purgatory/internal/machine"

// fewWatches is the largest number of watches beyond the first that Leave handles while
// it holds the lock for the batch. Those of an operation with more are left to
// leaveElsewhere, which releases the lock in between.
const fewWatches = 8

// Leave takes the operations of a batch, which the caller holds and is about to end, out of
// all their lists, and counts them as ended in s: machines[i] ends with outcomes[i]. s is the
// shard of the key that was checked, or of an operation's first key. Leave takes the lock of s
// once for the batch.
//
// A watch in another shard whose lock is not free may be left to the goroutine that holds it.
func (s *Shard[K]) Leave(machines []*machine.Machine, outcomes []machine.Outcome) {
	elsewhere := false      // some watches are left for leaveElsewhere
	now := s.observer.Now() // one reading of the clock for the batch
	s.mu.Lock()
	for i, m := range machines {
		o := outcomes[i]
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
	s.unlock()
	if elsewhere {
		leaveElsewhere[K](machines, outcomes)
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
// is not free, it leaves the watch to the goroutine that holds it, unless the limit of such
// watches is reached: then it waits for the lock.
func leaveElsewhere[K comparable](machines []*machine.Machine, outcomes []machine.Outcome) {
	var l leaving[K]
	for i, m := range machines {
		o := outcomes[i]
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
	held  *Shard[K] // the shard whose lock is held, or nil
	steps int       // watches unlinked since that lock was taken
}

// maxSteps is the largest number of watches that a goroutine unlinks before it releases the
// lock.
const maxSteps = 128

// unlink unlinks w or leaves it in its list. It reports whether it has unlinked w.
func (l *leaving[K]) unlink(w *machine.Watch, o machine.Outcome) (unlinked bool) {
	if w.List() == nil {
		return true
	}
	list := w.List().Owner().(*keyList[K])
	of := list.shard
	if of != l.held || l.steps == maxSteps {
		l.unlock()
		if !of.mu.TryLock() {
			if of.leave(w, o) {
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
		l.held.unlock()
		l.held = nil
	}
}

// Gone reports whether m, which has ended, has left the list of its first key. That key belongs
// to s.
func (s *Shard[K]) Gone(m *machine.Machine) bool {
	s.mu.Lock()
	defer s.unlock()
	return m.First().List() == nil
}
