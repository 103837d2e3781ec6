package watchers

import (
	"sync/atomic"
	"time"

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
		signals       int64                      // keys that were asked for without a walk
		unchecked     int64                      // operations that have expired without a check

		visit Visit[K] // the first one, and its next

		spare  *machine.Extra // watches that are in no list, linked by Next
		nspare int

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

// Watch links m, which the caller holds, under the key of at: in order of position, then of arrival. With its first key,
// m counts as accepted, or Watch returns false: when Config.Closed is true, or beyond Config.KeyLimit. Whoever sets
// Closed and then takes the shard's lock finds every operation that the shard accepts: a registration has linked its
// own before, or takes the lock later, and reads Closed.
func (w *Watchers[K]) Watch(m *machine.Machine, at *Wait[K]) (ok bool) {
	s := w.used(at.Hash) // shard and lock as they are, which the compiler does not inline
	if s == nil {
		s = w.make(at.Hash)
	}
	s.mu.Lock()
	if s.stale.Load() != nil {
		s.drainLocked()
	}
	watch := m.First()
	switch {
	case watch.List != nil: // it has its first key
		watch = s.extraLocked(m)
	case w.config.Closed.Load() || w.config.KeyLimit != 0 && s.waitingLocked(*at) >= w.config.KeyLimit:
		s.mu.Unlock()
		return false
	default:
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

const maxSpare = 64 // watches that a shard keeps for later operations

// extraLocked puts a watch at the head of m's chain.
func (s *shard[K]) extraLocked(m *machine.Machine) *machine.Watch {
	x := s.mu.spare
	if x != nil {
		s.mu.spare = x.Next
		s.mu.nspare--
	} else {
		x = new(machine.Extra)
	}
	x.Next, *m.Extra() = *m.Extra(), x
	return &x.Watch
}

// unlinkLocked takes w out of its list. Nobody else refers to w then, unless it is the first watch of its operation.
func (s *shard[K]) unlinkLocked(w *machine.Watch) {
	l := listOf[K](w)
	w.Unlink()
	s.mu.watched--
	if l.Len() == 0 {
		s.forgetLocked(l)
	}
	if w != w.Machine.First() && s.mu.nspare < maxSpare {
		x := machine.ExtraOf(w)
		x.Machine, x.Next, s.mu.spare = nil, s.mu.spare, x
		s.mu.nspare++
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

// Totals is what all shards have counted, and what they see.
type Totals[K comparable] struct {
	Accepted   int64
	Pending    int64 // accepted, and not ended; not exactly while they come and go
	Unanswered int64 // accepted, and their callbacks have not run
	Ended      [machine.NumOutcomes]int64

	Inside         int     // goroutines that try operations or run callbacks, once for each level of nested calls
	Blocked        Seen[K] // the method that has been running for longest since a call of Totals has seen it
	Keys, Watched  int
	Stale          int   // of Watched
	Purged         int64 // stale watches that Purge has taken out
	Checks, Wasted int64
	Signals        int64

	Unchecked int64 // of those that expired: no walk has come to them

	Waited *stats.Waited // nil without Config.Waited
}

// Totals returns the sum of all shards. skip is for how long nothing has run since the last call, because the process
// stalled: it does not count for Blocked.
//
// If Unanswered is 0, there was a moment during the call at which it was. No operation is answered before it is
// accepted, and Totals reads all answered counts before the first accepted count. Both only grow, so if the sums are
// equal, they were equal between the two passes.
func (w *Watchers[K]) Totals(skip time.Duration) (t Totals[K]) {
	for s := range w.shards() {
		t.Unanswered -= s.answered.Load()
	}
	now := w.config.Now()
	if w.config.Waited {
		t.Waited = new(stats.Waited)
	}
	for s := range w.shards() {
		s.lock()
		t.Unanswered += s.mu.accepted
		t.Accepted += s.mu.accepted
		t.Pending += s.mu.accepted
		for o, n := range s.mu.ended {
			early := s.early[o].Load()
			t.Accepted += early
			t.Pending -= n
			t.Ended[o] += n + early
		}
		t.Keys += int(s.mu.keys.len)
		t.Watched += s.mu.watched
		t.Signals += s.mu.signals
		t.Checks += s.mu.tries
		t.Wasted += s.mu.wasted
		t.Unchecked += s.mu.unchecked
		s.lookLocked(&t, now, skip)
		if s.waited != nil {
			for o := range s.waited {
				t.Waited[o].AddAll(&s.waited[o])
			}
		}
		s.mu.Unlock()
	}
	t.Pending = max(t.Pending, 0)
	t.Stale, t.Purged = int(w.stale.Load()), w.purged.Load()
	return t
}
