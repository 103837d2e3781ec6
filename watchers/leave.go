package watchers

import (
	"github.com/delayedop/purgatory/operation"
)

// Ending is some operations that their holder is about to end, and how: Machines[i]
// as Outcomes[i].
type Ending struct {
	Machines []*operation.Machine
	Outcomes []operation.Outcome
	Cause    *error // of those that end as cancelled; nil: it was left with a wish
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
func (s *Shard[K]) Leave(batch Ending) (run bool) {
	foreign := false
	s.mu.Lock()
	for i, m := range batch.Machines {
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
		s.mu.counts.Ended[batch.Outcomes[i]]++
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
func (s *Shard[K]) Queue(batch Ending) (run bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.arriving--
	if s.mu.running < MaxRunning {
		s.mu.running++
		return true
	}
	s.mu.queue = append(s.mu.queue, batch.Machines...)
	return false
}

// Enter is for a worker that helps with queued callbacks; see Stuck.
func (s *Shard[K]) Enter() {
	s.mu.Lock()
	s.mu.running++
	s.mu.Unlock()
}

// Exit is called by who has entered and has run their callbacks. It returns an
// operation whose callbacks were queued meanwhile, for the caller to run before it
// calls Exit again; or nil, and then the caller has left. One at a time: if its
// callback blocks, the others are still in the queue, where somebody finds them.
func (s *Shard[K]) Exit() (next *operation.Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.queue) == 0 {
		s.mu.running--
		return nil
	}
	next = s.mu.queue[0]
	s.mu.queue[0] = nil
	if s.mu.queue = s.mu.queue[1:]; len(s.mu.queue) == 0 {
		s.mu.queue = nil
	}
	return next
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
func (s *Shard[K]) leaveForeign(batch Ending) {
	for _, m := range batch.Machines {
		for w := range m.Watches() {
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
