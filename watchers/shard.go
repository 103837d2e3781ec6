package watchers

import (
	"sync/atomic"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/stats"
)

// Shard is a part of the map, with one lock. It is safe for concurrent use. What a registration and an end both write
// lies in one cache line.
type Shard[K comparable] struct {
	mu struct { // lock level 5, see docs/internals/design.md
		sched.Mutex
		watched  int   // watches that are linked in this shard
		accepted int64 // total number of operations accepted in this shard
		keys     table[K]

		counts        Counts
		tries, wasted int64 // calls of TryComplete by checks, and how many of them returned false
		signals       int64 // calls of Signal
		unchecked     int64 // operations that have expired without a check

		place place[K] // of visits: the first one, and its next

		checkedLast, uncheckedLast Seen[K] // the last expiries
	}

	// gate has in its low bits how many goroutines are inside, once for each level of nested calls, and above how many
	// operations' callbacks have been run ("answered").
	gate  sched.Uint64
	stale sched.Pointer[staleWatch]
	met   atomic.Int64 // waits that did not begin, because their condition was met: see Met; not explored: it only counts

	waited *stats.Waited // nil if only counts are wanted; guarded by mu
	all    *Watchers[K]
}

// Counts is the number of operations that have ended in a shard, by outcome.
type Counts [machine.NumOutcomes]int64

// Wait is a key, with its hash, and the position to wait for.
type Wait[K comparable] struct {
	Key      K
	Position int64
	Hash     uint64
}

// Watch links one of the watches of m, which the caller holds, under the key of w: in order of position, then of
// arrival. With the first watch, m counts as accepted, or Watch returns false: after [Watchers.Close], or beyond
// Config.KeyLimit.
func (s *Shard[K]) Watch(m *machine.Machine, watch *machine.Watch, w *Wait[K]) (ok bool) {
	s.mu.Lock()
	if s.stale.Load() != nil {
		s.drainLocked()
	}
	if watch == m.First() {
		limit := s.all.config.KeyLimit
		if s.all.closed.Load() || limit != 0 && s.waitingLocked(w.Key, w.Hash) >= limit {
			s.unlock()
			return false
		}
		s.mu.accepted++
	}
	l := s.mu.keys.find(w.Key, w.Hash)
	if l == nil {
		l = s.mu.keys.add(s, w.Key, w.Hash)
	}
	after := l.Last()
	if l.ordered != nil || w.Position != anyPosition {
		after = l.lastUpTo(w.Position)
	}
	l.Link(watch, m, w.Position, after)
	s.mu.watched++
	s.assertLocked()
	s.mu.Unlock()
	return true
}

func (s *Shard[K]) waitingLocked(key K, hash uint64) int {
	if l := s.mu.keys.find(key, hash); l != nil {
		return l.Len()
	}
	return 0
}

// Pass counts an operation that ends with o under key before it is watched; without m it has no callbacks. Pass
// returns false if the shard is closed.
func (s *Shard[K]) Pass(o machine.Outcome, key K, m *machine.Machine) (v Visit[K], ok bool) {
	s.lock()
	defer s.unlock()
	if s.all.closed.Load() {
		return v, false
	}
	s.mu.accepted++
	if m == nil {
		s.gate.Add(1 << insideBits)
	} else {
		v = s.enterLocked(key, m)
	}
	s.mu.counts[o]++
	if s.waited != nil {
		s.waited[o].Add(0, 1)
	}
	return v, true
}

// Met counts a wait whose condition is met before it begins, even if the shard is closed.
func (s *Shard[K]) Met() {
	s.met.Add(1)
	if s.waited != nil {
		s.lock()
		s.waited[machine.Satisfied].Add(0, 1)
		s.unlock()
	}
}

func (s *Shard[K]) unlinkLocked(w *machine.Watch) {
	l := listOf[K](w)
	w.Unlink()
	s.mu.watched--
	if l.Len() == 0 {
		s.forgetLocked(l)
	}
}

// forgetLocked takes l, in which no operation stands, out of the map.
func (s *Shard[K]) forgetLocked(l *keyList[K]) {
	if l.queued {
		s.unqueueLocked(l)
	}
	l.dropMarks()
	l.asked, l.walking = asked{}, false
	l.number++
	s.mu.keys.remove(l)
}

// Totals returns the sum of all shards' counts; waited, if it is not nil, gets how long operations waited.
func (w *Watchers[K]) Totals(waited *stats.Waited) (t Totals) {
	t.Waited = waited
	for s := range w.Shards() {
		s.addTo(&t)
	}
	return t
}

func (s *Shard[K]) addTo(t *Totals) {
	s.lock()
	for o, n := range s.mu.counts {
		t.Counts[o] += n
	}
	t.Accepted += s.mu.accepted
	t.Keys += int(s.mu.keys.len)
	t.Watched += s.mu.watched
	t.Signals += s.mu.signals
	t.Checks += s.mu.tries
	t.Wasted += s.mu.wasted
	t.Unchecked += s.mu.unchecked
	if t.Waited != nil && s.waited != nil {
		for o := range s.waited {
			t.Waited[o].AddAll(&s.waited[o])
		}
	}
	s.unlock()
	t.Met += s.met.Load()
	gate := s.gate.Load()
	t.Inside += int(gate % (1 << insideBits))
	t.Answered += gate >> insideBits
}

// Totals is the sum of the counts of all shards.
type Totals struct {
	Counts
	Accepted       int64
	Answered       uint64 // operations whose callbacks have run, modulo answeredMax
	Inside         int    // goroutines that try operations or run callbacks, once for each level of nested calls
	Keys, Watched  int
	Met            int64 // neither in Accepted nor in Counts
	Checks, Wasted int64
	Signals        int64

	Unchecked int64 // of those that expired: no walk has come to them

	Waited *stats.Waited // nil if it is not wanted
}

// Pending returns how many operations have been accepted and have not ended; not exactly while they come and go.
func (t *Totals) Pending() int64 {
	n := t.Accepted
	for _, ended := range t.Counts {
		n -= ended
	}
	return max(n, 0)
}
