package watchers

import (
	"sync/atomic"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/stats"
)

// shard is a part of the map, with one lock. What a registration and an end both write lies in one cache line.
type shard[K comparable] struct {
	mu struct { // lock level 5, see docs/internals/design.md
		sched.Mutex
		watched  int   // watches that are linked in this shard
		accepted int64 // total number of operations accepted in this shard
		keys     table[K]

		ended         [machine.NumOutcomes]int64 // operations, by outcome
		tries, wasted int64                      // calls of TryComplete by checks, and how many of them returned false
		signals       int64                      // calls of Signal
		unchecked     int64                      // operations that have expired without a check

		visit Visit[K] // the first one, and its next

		last *[2]Seen[K] // the last expiries: of a checked operation, and of another one; nil before the first
	}

	answered sched.Int64 // operations whose callbacks have run
	stale    sched.Pointer[staleWatch]
	early    [machine.NumOutcomes]atomic.Int64 // waits that ended before they began: see Early; not explored: they only count

	waited *stats.Waited // nil if only counts are wanted; guarded by mu
	all    *Watchers[K]
}

// Wait is a key, with its hash, and the position to wait for.
type Wait[K comparable] struct {
	Key      K
	Position int64
	Hash     uint64
}

// Watch links one of the watches of m, which the caller holds, under the key of at: in order of position, then of
// arrival. With the first watch, m counts as accepted, or Watch returns false: when Config.Closed is true, or beyond
// Config.KeyLimit. Whoever sets Closed and then takes the shard's lock finds every operation that it has accepted: a
// registration has linked its own before, with that lock held, or takes the lock later, and reads Closed.
func (w *Watchers[K]) Watch(m *machine.Machine, watch *machine.Watch, at *Wait[K]) (ok bool) {
	s := w.used(at.Hash) // shard and lock as they are, which the compiler does not inline
	if s == nil {
		s = w.make(at.Hash)
	}
	s.mu.Lock()
	if s.stale.Load() != nil {
		s.drainLocked()
	}
	if watch == m.First() {
		if w.config.Closed.Load() || w.config.KeyLimit != 0 && s.waitingLocked(*at) >= w.config.KeyLimit {
			s.mu.Unlock()
			return false
		}
		s.mu.accepted++
	}
	l := s.mu.keys.find(at.Key, at.Hash)
	if l == nil {
		l = s.mu.keys.add(s, at.Key, at.Hash)
	}
	after := l.Last()
	if l.ordered != nil || at.Position != anyPosition {
		after = l.lastUpTo(at.Position)
	}
	l.Link(watch, m, at.Position, after)
	s.mu.watched++
	s.mu.Unlock()
	return true
}

func (s *shard[K]) waitingLocked(at Wait[K]) int {
	if l := s.mu.keys.find(at.Key, at.Hash); l != nil {
		return l.Len()
	}
	return 0
}

// Pass counts m, which is satisfied before it is watched and whose callbacks run next. It returns nil when
// Config.Closed is true.
func (w *Watchers[K]) Pass(at *Wait[K], m *machine.Machine) *Visit[K] {
	s := w.shard(at.Hash)
	s.lock()
	defer s.mu.Unlock()
	if w.config.Closed.Load() {
		return nil
	}
	s.mu.accepted++
	s.mu.ended[machine.Satisfied]++
	if s.waited != nil {
		s.waited[machine.Satisfied].Add(0, 1)
	}
	return s.enterLocked(at.Key, at.Hash).runsLocked(m)
}

// Early counts a wait for a key with this hash that ends with o before it begins, and has no callbacks, even when Config.Closed is true.
func (w *Watchers[K]) Early(hash uint64, o machine.Outcome) {
	s := w.shard(hash)
	s.early[o].Add(1)
	if s.waited != nil {
		s.lock()
		s.waited[o].Add(0, 1)
		s.mu.Unlock()
	}
}

func (s *shard[K]) unlinkLocked(w *machine.Watch) {
	l := listOf[K](w)
	w.Unlink()
	s.mu.watched--
	if l.Len() == 0 {
		s.forgetLocked(l)
	}
}

// forgetLocked takes l, in which no operation stands, out of the map.
func (s *shard[K]) forgetLocked(l *keyList[K]) {
	if l.queued {
		s.unqueueLocked(l)
	}
	l.dropMarks()
	l.asked, l.walking = asked{}, false
	l.number++
	s.mu.keys.remove(l)
}

// Totals is the sum of the counts of all shards.
type Totals struct {
	Accepted       int64
	Ended          [machine.NumOutcomes]int64
	Answered       int64 // operations whose callbacks have run
	Inside         int   // goroutines that try operations or run callbacks, once for each level of nested calls
	Keys, Watched  int
	Stale          int   // of Watched
	Purged         int64 // stale watches that Purge has taken out
	Checks, Wasted int64
	Signals        int64

	Unchecked int64 // of those that expired: no walk has come to them

	Waited *stats.Waited // nil if it is not wanted
}

// Totals returns the sum of all shards' counts; waited, if it is not nil, gets how long operations waited.
func (w *Watchers[K]) Totals(waited *stats.Waited) (t Totals) {
	t.Waited = waited
	for s := range w.shards() {
		s.lock()
		t.Answered += s.answered.Load()
		t.Accepted += s.mu.accepted
		for o, n := range s.mu.ended {
			early := s.early[o].Load()
			t.Ended[o] += n + early
			t.Answered += early
			t.Accepted += early
		}
		t.Keys += int(s.mu.keys.len)
		t.Watched += s.mu.watched
		t.Signals += s.mu.signals
		t.Checks += s.mu.tries
		t.Wasted += s.mu.wasted
		t.Unchecked += s.mu.unchecked
		for v := &s.mu.visit; v != nil; v = v.next {
			if v.taken.Load() {
				t.Inside++
			}
		}
		if waited != nil && s.waited != nil {
			for o := range s.waited {
				waited[o].AddAll(&s.waited[o])
			}
		}
		s.mu.Unlock()
	}
	t.Stale, t.Purged = int(w.stale.Load()), w.purged.Load()
	return t
}

// Pending returns how many operations have been accepted and have not ended; not exactly while they come and go.
func (t *Totals) Pending() int64 {
	n := t.Accepted
	for _, ended := range t.Ended {
		n -= ended
	}
	return max(n, 0)
}
