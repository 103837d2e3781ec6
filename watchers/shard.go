package watchers

import (
	"reflect"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/stats"
)

// Shard is a part of the map, with one lock. It is safe for concurrent use. What a registration and an end both
// write lies in one cache line.
type Shard[K comparable] struct {
	mu struct { // lock level 5, see docs/internals/design.md
		sched.Mutex
		watched  uint32 // watches that are linked in this shard
		walks    int32  // keys of which operations are being tried
		accepted int64  // total number of operations accepted in this shard
		keys     table[K]

		counts        Counts
		tries, wasted int64 // calls of TryComplete by checks, and how many of them returned false
		signals       int64 // calls of Signal
		unchecked     int64 // operations that have expired without a check

		last Seen[K]  // of what runs
		seen struct { // by Blocked
			tries int64         // how many there were,
			since time.Duration // and since when there have been no more while one goes on, plus 1 ns; 0: none did
			began time.Duration // when the era did
			key   K             // of the last operation of the era before,
			kind  reflect.Type  // and its type
		}

		checkedLast, uncheckedLast Seen[K] // the last expiries
	}

	// gate has in its low bits how many goroutines run callbacks of operations that have ended here, and above how many
	// operations' callbacks have been run ("answered").
	gate  sched.Uint64
	eras  eras
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

// Watch links one of the watches of m, which the caller holds, under the key of w: in order of position, then
// of arrival. With the first watch, m counts as accepted, or Watch returns false: after [Watchers.Close], or
// beyond Config.KeyLimit.
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

// Pass counts an operation that ends with o before it is watched. It returns false if the shard is closed.
func (s *Shard[K]) Pass(o machine.Outcome) bool {
	s.lock()
	defer s.unlock()
	if s.all.closed.Load() {
		return false
	}
	s.mu.accepted++
	s.mu.counts[o]++
	if s.waited != nil {
		s.waited[o].Add(0, 1)
	}
	return true
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

// unlinkLocked takes w out of its list, and the key out of the map if that was its last watch.
func (s *Shard[K]) unlinkLocked(w *machine.Watch) {
	l := listOf[K](w)
	w.Unlink()
	s.mu.watched--
	if l.Len() == 0 {
		s.forgetLocked(l)
	}
}

func (s *Shard[K]) runsLocked(l *keyList[K], m *machine.Machine) {
	s.mu.last.Key, s.mu.last.Kind = l.key, reflect.TypeOf(m.Operation())
}

// forgetLocked takes l, in which no operation stands, out of the map. A walk over it is over.
func (s *Shard[K]) forgetLocked(l *keyList[K]) {
	if l.queued {
		s.unqueueLocked(l)
	}
	if l.walking {
		s.mu.walks--
	}
	if l.First() != nil {
		l.clear()
	}
	l.asked, l.walking = asked{}, false
	l.number++
	s.mu.keys.remove(l)
}

// Totals adds the counts of s to t.
func (s *Shard[K]) Totals(t *Totals) {
	s.lock()
	for o, n := range s.mu.counts {
		t.Counts[o] += n
	}
	t.Accepted += s.mu.accepted
	t.Keys += int(s.mu.keys.len)
	t.Watched += int(s.mu.watched)
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
}

// Totals is the sum of the counts of all shards.
type Totals struct {
	Counts
	Accepted       int64
	Keys, Watched  int
	Met            int64 // neither in Accepted nor in Counts
	Checks, Wasted int64
	Signals        int64

	Unchecked int64 // of those that expired: no walk has come to them

	Waited *stats.Waited // nil if it is not wanted
}

// Pending returns how many operations have been accepted and have not ended, never less than 0. It is not exact
// while operations come and go.
func (t *Totals) Pending() int64 {
	n := t.Accepted
	for _, ended := range t.Counts {
		n -= ended
	}
	return max(n, 0)
}
