package watchers

import (
	"github.com/delayedop/purgatory/operation"
)

// Leaving is an operation that its holder is about to end.
type Leaving struct {
	Machine *operation.Machine
	Cause   *error // of a cancelled one
	Outcome operation.Outcome
}

// MaxRunning is how many goroutines run callbacks that came out of one shard before
// the next is queued behind them. A callback that completes an operation, whose
// callback completes the next, is on the same goroutine each time: the limit bounds
// how deep that stack grows.
const MaxRunning = 64

// Leave takes operations, which the caller holds, out of all their lists, counts
// them as ended, and enters the caller among those who run callbacks of s (see
// Enter): each lock is taken once for the batch where it can be. s is the shard at
// hand: that of the key that was checked, or of the operation's first key.
func (s *Shard[K]) Leave(batch []Leaving) (run bool) {
	foreign := false
	s.mu.Lock()
	for i := range batch {
		m := batch[i].Machine
		if first := m.First(); first.List() != nil {
			foreign = !s.unlinkOwnLocked(first) || foreign
			s.mu.counts.Pending--
			s.mu.counts.Ended[batch[i].Outcome]++
		}
		extra := m.Extra()
		for j := range extra {
			if extra[j].List() != nil {
				foreign = !s.unlinkOwnLocked(&extra[j]) || foreign
			}
		}
	}
	run = s.enterLocked(batch)
	s.mu.Unlock()
	if foreign {
		s.leaveForeign(batch)
	}
	return run
}

// unlinkOwnLocked unlinks w if it is of this shard.
func (s *Shard[K]) unlinkOwnLocked(w *operation.Watch) bool {
	if w.List().Home().(*keyList[K]).shard != s {
		return false
	}
	s.unlinkLocked(w)
	return true
}

// leaveForeign unlinks what is in other shards. Where one is busy at that moment
// the watch is left to Purge, unless as many as may be have been left already.
func (s *Shard[K]) leaveForeign(batch []Leaving) {
	for i := range batch {
		for w := range batch[i].Machine.Watches() {
			l := w.List()
			if l == nil {
				continue
			}
			of := l.Home().(*keyList[K]).shard
			if !of.mu.TryLock() {
				if of.postpone(w) {
					continue
				}
				of.mu.Lock()
			}
			of.unlinkLocked(w)
			of.mu.Unlock()
		}
	}
}

// Ended counts an operation that ended without having been watched, and enters
// the caller among those who run callbacks of s.
func (s *Shard[K]) Ended(batch []Leaving) (run bool) {
	s.mu.Lock()
	for i := range batch {
		s.mu.counts.Ended[batch[i].Outcome]++
	}
	run = s.enterLocked(batch)
	s.mu.Unlock()
	return run
}

// Withdraw takes an operation that its holder rejects out of its lists and the
// counts, as if it had never been accepted. s is the shard of its first key.
func (s *Shard[K]) Withdraw(m *operation.Machine) {
	if m.First().List() != nil {
		s.mu.Lock()
		s.mu.counts.Pending--
		s.mu.Unlock()
	}
	for w := range m.Watches() {
		if l := w.List(); l != nil {
			of := l.Home().(*keyList[K]).shard
			of.mu.Lock()
			of.unlinkLocked(w)
			of.mu.Unlock()
		}
	}
}

// enterLocked counts the caller as one who runs callbacks. If there are too many
// already, the batch is queued for them instead, and false returned.
func (s *Shard[K]) enterLocked(batch []Leaving) bool {
	if s.mu.running >= MaxRunning {
		for i := range batch {
			s.mu.deferred = append(s.mu.deferred, batch[i].Machine)
		}
		return false
	}
	s.mu.running++
	return true
}

// Enter is for a worker that helps with queued callbacks; see Stuck.
func (s *Shard[K]) Enter() {
	s.mu.Lock()
	s.mu.running++
	s.mu.Unlock()
}

// Exit is called by who has entered and has run their callbacks. It returns
// operations whose callbacks were queued meanwhile, for the caller to run before it
// calls Exit again; if there are none, the caller has left.
func (s *Shard[K]) Exit() (more []*operation.Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if more = s.mu.deferred; len(more) > 0 {
		s.mu.deferred = nil
		return more
	}
	s.mu.running--
	return nil
}

// Stuck reports whether callbacks have been queued since the last time it was
// asked, and nobody has come to run them: then all that run are blocked in theirs,
// and somebody else has to Enter and Exit.
func (s *Shard[K]) Stuck() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.mu.stuck
	s.mu.stuck = len(s.mu.deferred) > 0
	return was && s.mu.stuck
}

// Close makes every further Watch fail and returns the operations that are
// watched now, in no order; one with several keys may come more than once. Those
// that are being registered are among them.
func (s *Shard[K]) Close() (waiting []*operation.Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	waiting = make([]*operation.Machine, 0, s.mu.watched)
	s.mu.keys.all(func(l *keyList[K]) {
		for _, list := range [...]*operation.List{&l.unordered, &l.ordered} {
			for w := list.First(); w != nil; w = list.Next(w) {
				if m := w.Machine(); m != nil {
					waiting = append(waiting, m)
				}
			}
		}
	})
	return waiting
}
