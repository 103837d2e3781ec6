package watchers

import (
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
)

// Ending is some operations that their holder is about to end, and how: Machines[i]
// as Outcomes[i].
type Ending struct {
	Machines []*operation.Machine
	Outcomes []operation.Outcome
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
	now := s.observer.clock()
	s.mu.Lock()
	own := lastList[K]{shard: s} // most of a batch stands in one list
	for i, m := range batch.Machines {
		o := batch.Outcomes[i]
		if s.observer != nil {
			s.observer.ended(m, o, now)
		}
		if first := m.First(); first.List() != nil {
			foreign = !own.unlinkLocked(first, o) || foreign
			s.mu.counts.Pending--
		}
		extra := m.Extra()
		for j := range extra {
			if extra[j].List() != nil {
				foreign = !own.unlinkLocked(&extra[j], o) || foreign
			}
		}
		s.mu.counts.Ended[o]++
	}
	own.leaveLocked()
	run = s.enterLocked()
	closed := s.mu.closed
	s.mu.Unlock()
	if foreign {
		s.leaveForeign(batch, closed)
	}
	return run
}

// Pass is Leave for an operation that ends with o before it was watched. It fails
// if the shard is closed.
func (s *Shard[K]) Pass(o operation.Outcome) (run, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false, false
	}
	s.mu.counts.Ended[o]++
	if s.observer != nil {
		s.observer.passed(o)
	}
	return s.enterLocked(), true
}

func (s *Shard[K]) enterLocked() (run bool) {
	if s.mu.running < MaxRunning {
		s.mu.running++
		return true
	}
	s.mu.arriving++
	return false
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
	s.all.queued.Add(int64(len(batch.Machines)))
	return false
}

// Queued reports whether any shard has queued callbacks.
func (w *Watchers[K]) Queued() bool {
	sched.Yield()
	return w.queued.Load() > 0
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
	s.all.queued.Dec()
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

// lastList is the list, of one shard, out of which watches were unlinked last: for a
// run of them it looks up what is behind the list, and whether that has become empty,
// only once.
type lastList[K comparable] struct {
	shard *Shard[K]
	list  *operation.List
	home  *keyList[K]
	own   bool // home is of shard
}

// unlinkLocked unlinks w if it is of the shard.
func (last *lastList[K]) unlinkLocked(w *operation.Watch, o operation.Outcome) bool {
	if l := w.List(); l != last.list {
		last.leaveLocked()
		last.list, last.home = l, l.Home().(*keyList[K])
		last.own = last.home.shard == last.shard
	}
	if last.own {
		if last.shard.observer != nil {
			last.shard.observer.unlinked(w.Machine(), last.home, o)
		}
		w.Unlink()
		last.shard.mu.watched--
	}
	return last.own
}

// leaveLocked forgets the key if that was its last watch.
func (last *lastList[K]) leaveLocked() {
	if last.own {
		last.shard.dropLocked(last.home)
	}
}

// leaveForeign unlinks what is in other shards. Where one is busy at that moment
// the watch is left to Purge, unless as many as may be have been left already, or
// the map is closed: then there may be no more purges.
func (s *Shard[K]) leaveForeign(batch Ending, closed bool) {
	for i, m := range batch.Machines {
		for w := range m.Watches() {
			l := w.List()
			if l == nil {
				continue
			}
			of := l.Home().(*keyList[K]).shard
			if !of.mu.TryLock() {
				if !closed && of.postpone(w) {
					continue
				}
				of.mu.Lock()
			}
			of.unlinkLocked(w, batch.Outcomes[i])
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
		if s.observer != nil {
			s.observer.withdrawn(m)
		}
		s.mu.Unlock()
	}
	for w := range m.Watches() {
		if l := w.List(); l != nil {
			of := l.Home().(*keyList[K]).shard
			of.mu.Lock()
			of.unlinkLocked(w, operation.Pending)
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
