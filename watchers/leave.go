package watchers

import "github.com/delayedop/purgatory/internal/machine"

// Leave takes the operations of a batch, which the caller holds and is about to end, out of
// all their lists, and counts them as ended in s: machines[i] ends with outcomes[i]. s is the
// shard of the key that was checked, under which all of them wait, or of an operation's first key. Leave takes the lock of s
// once for the first keys of the batch, and once more for each other key. It puts the first key of
// machines[i] into keys[i].
//
// A watch whose lock is not free then may become stale: the goroutine that holds the lock takes it out.
func (s *Shard[K]) Leave(machines []*machine.Machine, outcomes []machine.Outcome, keys []K) {
	outcomes, keys = outcomes[:len(machines)], keys[:len(machines)]
	more := false // some operations have watches that are still linked
	s.mu.Lock()
	if s.observer != nil {
		s.observer.Ended(machines, outcomes)
	}
	for i, m := range machines {
		o := outcomes[i]
		s.mu.counts[o]++
		l, several := m.First().List().Host().(*keyList[K]), m.Extra() != nil
		if keys[i] = l.key; l.shard == s {
			s.unlinkLocked(l, m.First(), o, several)
		}
		more = more || several // so it is where s is not the shard of its first key
	}
	s.unlock()
	if more {
		unlinkRest[K](machines, outcomes)
	}
}

// unlinkRest unlinks those of their watches that Leave has not unlinked.
func unlinkRest[K comparable](machines []*machine.Machine, outcomes []machine.Outcome) {
	for i, m := range machines {
		o := outcomes[i]
		if extra := m.Extra(); extra != nil {
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

// unlink unlinks w, which belongs to an operation on several keys, if it is linked. If the lock of its shard is not free,
// w becomes stale, unless the limit of such watches is reached: then unlink waits for the lock. (To wait always would let
// the crowd of one key delay the ends of another's; to make every watch stale makes an operation on three keys 1.3 times
// as slow: see docs/decisions.md#a-watch-may-be-stale-for-one-hold-of-a-lock.) It reports whether it has unlinked w. If w
// is the last of m's array, the shard, which usually has lent the array, takes it back.
func unlink[K comparable](w *machine.Watch, o machine.Outcome, m *machine.Machine) (unlinked bool) {
	if w.List() == nil {
		return true
	}
	l := w.List().Host().(*keyList[K])
	s := l.shard
	if !s.mu.TryLock() {
		if s.addStale(w, o) {
			return false
		}
		s.mu.Lock()
	}
	s.unlinkLocked(l, w, o, true)
	if m != nil {
		s.mu.spare.Take(m)
	}
	s.unlock()
	return true
}
