package watchers

import "github.com/delayedop/purgatory/internal/machine"

// fewWatches is the largest number of watches beyond the first that Leave handles while
// it holds the lock for the batch. Those of an operation with more are left to
// leaveElsewhere, which releases the lock in between.
const fewWatches = 8

// Leave takes the operations of a batch, which the caller holds and is about to end, out of
// all their lists, and counts them as ended in s: machines[i] ends with outcomes[i]. s is the
// shard of the key that was checked, or of an operation's first key. Leave takes the lock of s
// once for the batch. It puts the first key of machines[i] into keys[i].
//
// A watch in another shard whose lock is not free may be left to the goroutine that holds it.
func (s *Shard[K]) Leave(machines []*machine.Machine, outcomes []machine.Outcome, keys []K) {
	elsewhere := false // some watches are left for leaveElsewhere
	s.mu.Lock()
	if s.observer != nil {
		s.observer.Ended(machines, outcomes)
	}
	for i, m := range machines {
		o := outcomes[i]
		s.mu.counts[o]++
		l := m.First().List().Owner().(*keyList[K])
		if keys[i] = l.key; l.shard == s {
			s.unlinkLocked(l, m.First(), o)
		} else {
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

// leaveElsewhere unlinks the watches that Leave has not unlinked.
func leaveElsewhere[K comparable](machines []*machine.Machine, outcomes []machine.Outcome) {
	for i, m := range machines {
		o := outcomes[i]
		if extra := m.Extra(); extra != nil { // Leave has not unlinked all of these watches
			last := m
			for j := len(extra) - 1; j > 0; j-- {
				if !unlink[K](&extra[j], o, nil) {
					last = nil // the goroutine that unlinks it still uses the array
				}
			}
			unlink[K](&extra[0], o, last)
		}
		unlink[K](m.First(), o, nil)
	}
}

// unlink unlinks w, if it is linked. If the lock of its shard is not free, it leaves w to the
// goroutine that holds the lock, unless the limit of such watches is reached: then it waits for the
// lock. It reports whether it has unlinked w. If w is the last of m's array, the shard, which
// usually has lent the array, takes it back.
func unlink[K comparable](w *machine.Watch, o machine.Outcome, m *machine.Machine) (unlinked bool) {
	if w.List() == nil {
		return true
	}
	l := w.List().Owner().(*keyList[K])
	s := l.shard
	if !s.mu.TryLock() {
		if s.leave(w, o) {
			return false
		}
		s.mu.Lock()
	}
	s.unlinkLocked(l, w, o)
	if m != nil {
		s.mu.spare.Take(m)
	}
	s.unlock()
	return true
}

// Gone reports whether no walk in order has m, which has ended: m has left the list of its key,
// its only one, and no walk has the key's turn. The key belongs to s.
func (s *Shard[K]) Gone(m *machine.Machine, key K, hash uint64) bool {
	s.mu.Lock()
	defer s.unlock()
	if m.First().List() != nil {
		return false
	}
	l := s.mu.keys.find(key, hash) // it stays in the table during a turn
	return l == nil || !l.turn
}
