package watchers

import (
	"github.com/delayedop/purgatory/operation"
)

// Leaving is an operation that its holder is about to end.
type Leaving struct {
	Operation operation.Operation
	Machine   *operation.Machine // Operation's
	Cause     *error             // of a cancelled one
	Outcome   operation.Outcome
}

// MaxRunning is how many goroutines run callbacks that came out of one shard before
// the next is queued behind them. A callback that completes an operation, whose
// callback completes the next, is on the same goroutine each time: the limit bounds
// how deep that stack grows.
const MaxRunning = 64

// Leave takes operations, which the caller holds, out of all their lists and counts
// them as ended: each lock is taken once for the batch where it can be. s is the
// shard at hand: that of the key that was checked, or of the operation's first key.
// It reports whether the caller may run the callbacks itself; then it has entered,
// and has to Exit. If not, it has to Queue them, when they are settled.
func (s *Shard[K]) Leave(batch []Leaving) (run bool) {
	foreign := false
	s.mu.Lock()
	for i := range batch {
		m := batch[i].Machine
		if first := m.First(); first.List() != nil {
			foreign = !s.unlinkOwnLocked(first) || foreign
			s.mu.counts.Pending--
		}
		extra := m.Extra()
		for j := range extra {
			if extra[j].List() != nil {
				foreign = !s.unlinkOwnLocked(&extra[j]) || foreign
			}
		}
		s.mu.counts.Ended[batch[i].Outcome]++
	}
	s.mu.running++
	if run = s.mu.running <= MaxRunning; !run {
		s.mu.running--
		s.mu.arriving++
	}
	s.mu.Unlock()
	if foreign {
		s.leaveForeign(batch)
	}
	return run
}

// Queue puts a batch behind the goroutines that run callbacks, for one of them to
// take; unless there are few enough by now. See Leave.
func (s *Shard[K]) Queue(batch []Leaving) (run bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.arriving--
	if s.mu.running < MaxRunning {
		s.mu.running++
		return true
	}
	s.mu.queue = append(s.mu.queue, batch...)
	return false
}

// Enter is for a worker that helps with queued callbacks; see Stuck.
func (s *Shard[K]) Enter() {
	s.mu.Lock()
	s.mu.running++
	s.mu.Unlock()
}

// Exit is called by who has entered and has run their callbacks. It returns true and
// an operation whose callbacks were queued meanwhile, for the caller to run before it
// calls Exit again; or false, and then the caller has left. One at a time: if its
// callback blocks, the others are still in the queue, where somebody finds them.
func (s *Shard[K]) Exit() (next Leaving, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.queue) == 0 {
		s.mu.running--
		return Leaving{}, false
	}
	next = s.mu.queue[0]
	s.mu.queue[0] = Leaving{}
	if s.mu.queue = s.mu.queue[1:]; len(s.mu.queue) == 0 {
		s.mu.queue = nil
	}
	return next, true
}

// Stuck reports whether callbacks have been queued since the last time it was
// asked, and none was taken meanwhile: then all that run are blocked in theirs, and
// somebody else has to Enter and Exit.
func (s *Shard[K]) Stuck() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.mu.queue)
	was := s.mu.stuck
	s.mu.stuck = n
	return was > 0 && n >= was
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

// Withdraw takes an operation that its holder rejects out of its lists and the
// counts, as if it had never been accepted. s is the shard of its first key. It
// reports whether the operation was in any list.
func (s *Shard[K]) Withdraw(m *operation.Machine) (linked bool) {
	if linked = m.First().List() != nil; linked {
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
	return linked
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
