package watchers

import (
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/prefetch"
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
	var foreign bool // some are in other shards
	timed := s.observer != nil && s.observer.times != nil
	var ends endings
	if timed {
		ends = endings{times: s.observer.times, now: s.observer.now()}
	}
	s.mu.Lock()
	own := lastList[K]{shard: s} // most of a batch stands in one list
	for i, m := range batch.Machines {
		o := batch.Outcomes[i]
		if timed {
			ends.add(m, o)
		}
		if first := m.First(); first.List() != nil {
			foreign = !own.unlinkLocked(first, o) || foreign
			s.mu.counts[operation.Pending]--
		}
		if extra := m.Extra(); extra != nil {
			linked := false
			for j := range extra {
				if extra[j].List() != nil {
					linked = !own.unlinkLocked(&extra[j], o) || linked
				}
			}
			if foreign = linked || foreign; !linked {
				s.mu.spare.Take(m)
			}
		}
		s.mu.counts[o]++
	}
	own.leaveLocked()
	ends.flush()
	run = s.enterLocked()
	closed := s.mu.closed
	s.mu.Unlock()
	if foreign {
		s.leaveForeign(batch, closed)
	}
	return run
}

// Prefetch asks for what Leave writes in the shards of an operation on several keys, which its holder is about to end.
// s is the shard of its first key.
func (s *Shard[K]) Prefetch(m *operation.Machine) {
	extra := m.Extra()
	if extra == nil {
		return
	}
	prefetch.Line(unsafe.Pointer(&s.mu))
	prefetch.Line(unsafe.Pointer(&s.mu.counts))
	for i := range min(len(extra), prefetch.Most) {
		of := extra[i].List().Home().(*keyList[K]).shard
		prefetch.Line(unsafe.Pointer(&of.mu))
		if i == 0 {
			prefetch.Line(unsafe.Pointer(&of.mu.spare)) // which takes the array
		}
	}
}

// Pass is Leave for an operation that ends with o before it was watched. It fails
// if the shard is closed.
func (s *Shard[K]) Pass(o operation.Outcome) (run, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false, false
	}
	s.mu.counts[o]++
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
	gap   operation.Gap

	// For an observer of keys: what was unlinked since it was last told.
	o     operation.Outcome
	n     int64
	start time.Duration
}

// unlinkLocked unlinks w if it is of the shard.
func (last *lastList[K]) unlinkLocked(w *operation.Watch, o operation.Outcome) bool {
	if l := w.List(); l != last.list {
		home := l.Home().(*keyList[K])
		if home.shard != last.shard {
			return false
		}
		last.leaveLocked()
		last.list, last.home = l, home
	}
	if last.shard.observer != nil {
		if o != last.o {
			last.tellLocked()
			last.o = o
		}
		last.n++
		last.start = w.Machine().Start()
	}
	last.gap.Unlink(w)
	last.shard.mu.watched--
	return true
}

// leaveLocked makes the list whole again, and forgets the key if that was its last
// watch.
func (last *lastList[K]) leaveLocked() {
	last.gap.Close()
	if last.home != nil {
		last.tellLocked()
		last.shard.dropLocked(last.home)
	}
}

func (last *lastList[K]) tellLocked() {
	if last.n > 0 {
		last.shard.observer.unlinked(last.home, last.o, last.n, last.start)
		last.n = 0
	}
}

// leaveForeign unlinks what is in other shards. Where one is busy at that moment
// the watch is left to Purge, unless as many as may be have been left already, or
// the map is closed: then there may be no more purges.
func (s *Shard[K]) leaveForeign(batch Ending, closed bool) {
	var held *Shard[K] // its lock is kept for the next watch: that may be of the same shard
	for i, m := range batch.Machines {
		o := batch.Outcomes[i]
		if first := m.First(); first.List() != nil {
			held = unlinkForeign(held, first, o, closed)
		}
		extra := m.Extra() // if there is one still, some of it is in other shards
		free := extra != nil
		for j := len(extra) - 1; j >= 0; j-- {
			if extra[j].List() != nil {
				held = unlinkForeign(held, &extra[j], o, closed)
				free = free && held != nil
			}
		}
		if free { // held is usually the shard of the second key, which has lent it
			held.mu.spare.Take(m)
		}
	}
	if held != nil {
		held.mu.Unlock()
	}
}

// unlinkForeign unlinks w, or leaves it to Purge. held is the shard whose lock the
// caller holds, nil if none; it returns the one whose lock the caller holds then.
func unlinkForeign[K comparable](held *Shard[K], w *operation.Watch, o operation.Outcome, closed bool) *Shard[K] {
	of := w.List().Home().(*keyList[K]).shard
	if of != held {
		if held != nil {
			held.mu.Unlock()
		}
		if !of.mu.TryLock() {
			if !closed && of.postpone(w) {
				return nil
			}
			of.mu.Lock()
		}
	}
	of.unlinkLocked(w, o)
	return of
}

// Withdraw takes an operation that its holder rejects out of its lists and the
// counts, as if it had never been accepted. s is the shard of its first key. It
// reports whether the operation was in any list.
func (s *Shard[K]) Withdraw(m *operation.Machine) (linked bool) {
	if linked = m.First().List() != nil; linked {
		s.mu.Lock()
		s.mu.counts[operation.Pending]--
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
		for _, list := range l.lists() {
			for w := list.First(); w != nil; w = list.Next(w) {
				if m := w.Machine(); m != nil {
					waiting = append(waiting, m)
				}
			}
		}
	})
	return waiting
}
