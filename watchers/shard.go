package watchers

import (
	"sync/atomic"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/stats"
)

// Shard is a part of the map, with one lock. It is safe for concurrent use.
//
// Its fields are laid out by cache lines. The goroutine that registers an operation and
// the one that ends it mostly run on different processors, and a line that both write
// has to move from one processor to the other. Only one line is like that, the one with
// the lock. A second line is written by goroutines that check and end operations. A
// third holds the spare watches of operations on several keys, and a fourth is written
// by checks and signals. Fields that are only read, or rarely written, come last.
//
// The allocator places the first shard at the beginning of a cache line or 8 bytes
// behind it. Therefore a group of fields that are written together is at most 56 bytes
// long.
type Shard[K comparable] struct {
	ownGate Gate

	mu struct { // lock level 5, see docs/design.md
		counts Counts
		_      [8]byte // fills the cache line

		sched.Mutex
		watched  uint32   // watches that are linked in this shard
		kick     bool     // a key was queued: release calls Config.Kick
		accepted int64    // total number of operations accepted in this shard
		keys     table[K] // in this line, except for the capacity of its buckets

		spare machine.Spare

		signals signalQueue[K]
	}

	tries, wasted atomic.Int64 // calls of TryComplete by checks, and how many of them returned false
	met           atomic.Int64 // waits that did not begin, because their condition was met: see Met
	seen          sighting     // of ownGate
	_             [16]byte     // fills the cache line

	// stale holds watches of ended operations that Leave could not unlink because mu
	// was locked; see unlock. Lock level 6: a goroutine that needs both locks takes mu first.
	stale struct {
		sched.Mutex
		watches []staleWatch
	}

	observer *stats.Observer[K] // nil if only counts are wanted; guarded by mu
	gate     *Gate              // ownGate, or that of another shard if there are over maxGates
	hasStale sched.Uint32       // 1 while stale holds watches; read without a lock
	index    uint32             // in all.shards
	all      *Watchers[K]
}

// Counts is the number of operations that have ended in a shard, by outcome. An
// operation ends in the shard of the key that was checked. That need not be the shard
// in which it was accepted.
type Counts [machine.NumOutcomes]int64

// Gate returns the gate of s, which it may share with other shards.
func (s *Shard[K]) Gate() *Gate { return s.gate }

// Wait is a key, with its hash, and the position of it that an operation is to wait for.
type Wait[K comparable] struct {
	Key      K
	Position int64
	Hash     uint64
}

// Refusal says why Watch has not linked an operation.
type Refusal uint8

// Watch refuses an operation, under its first key only, if the shard is closed, or if as many
// watches stand under the key as Config.KeyLimit allows.
const (
	Accepted Refusal = iota
	ShardClosed
	KeyFull
)

// Watch links the i-th watch of m under the key of w. The caller holds m. With watch 0, m
// counts as accepted, unless Watch refuses it.
//
// The watches of a key are in the order of their positions. Those with equal positions
// are in order of arrival.
func (s *Shard[K]) Watch(m *machine.Machine, i int, w *Wait[K]) (refused Refusal) {
	s.mu.Lock()
	switch i {
	case 0:
		if s.all.closed.Load() || s.all.config.KeyLimit != 0 { // rare
			if refused = s.refusesLocked(w); refused != Accepted {
				s.unlock()
				return refused
			}
		}
		s.mu.accepted++
	case 1:
		s.mu.spare.Lend(m)
	}
	l := s.mu.keys.findOrAdd(s, w.Key, w.Hash)
	after := l.Last()
	if l.ordered != nil || w.Position != AnyPosition {
		after = l.lastUpTo(w.Position)
	}
	l.Link(m, i, w.Position, after)
	s.mu.watched++
	if s.observer != nil {
		s.observer.Watched(m, i == 0, w.Key, w.Hash)
	}
	s.unlock()
	return Accepted
}

// refusesLocked says whether an operation with the first key of w is refused. Watch asks where there may be a
// reason: s is closed, or keys have a limit. Where a key is full, refusesLocked first takes out the stale watches: so
// the limit is exact.
func (s *Shard[K]) refusesLocked(w *Wait[K]) Refusal {
	if s.all.closed.Load() {
		return ShardClosed
	}
	limit := s.all.config.KeyLimit
	if w.Hash == s.all.NoKey || s.waitingLocked(w.Key, w.Hash) < limit {
		return Accepted
	}
	for s.hasStale.Load() != 0 {
		s.unlinkStaleLocked()
	}
	if s.waitingLocked(w.Key, w.Hash) < limit {
		return Accepted
	}
	return KeyFull
}

// waitingLocked returns the number of watches that stand under key.
func (s *Shard[K]) waitingLocked(key K, hash uint64) int {
	if l := s.mu.keys.find(key, hash); l != nil {
		return l.Len()
	}
	return 0
}

// Pass counts an operation as accepted and as ended with o: its condition was met, or its
// timeout had passed, before it was watched. Pass returns false if the shard is closed.
func (s *Shard[K]) Pass(o machine.Outcome) bool {
	s.mu.Lock()
	defer s.unlock()
	if s.all.closed.Load() {
		return false
	}
	s.mu.accepted++
	s.mu.counts[o]++
	s.observer.Passed(o)
	return true
}

// Met counts a wait that does not begin, because its condition is met. Nobody has to be told: so it
// counts even if the shard is closed.
func (s *Shard[K]) Met() {
	s.met.Add(1)
	if s.observer != nil {
		s.mu.Lock()
		s.observer.Passed(machine.Satisfied)
		s.unlock()
	}
}

// unlinkLocked takes w out of its list in l, a key of this shard. It takes the key out of
// the map if that was its last watch. o is the outcome of the operation, and several says that it has several keys.
//
// If a check in order has stopped at the operation, and the operation leaves without having taken anything, or perhaps
// what it has taken is another key's, those behind it may be able to go on: so their key is queued for such a check. None is
// lost: whoever ends the operation has become its holder after the walk that stopped at it has
// let go of it, and so reads what that walk has noted.
func (s *Shard[K]) unlinkLocked(l *keyList[K], w *machine.Watch, o machine.Outcome, several bool) {
	if s.observer != nil {
		m := w.Machine()
		s.observer.Unwatched(m, w == m.First(), o, l.key, l.hash)
	}
	w.Unlink()
	s.mu.watched--
	if l.Len() == 0 {
		s.dropLocked(l)
	} else if l.line && (o != machine.Satisfied || several) && w.Machine().Stopped() {
		s.signalLocked(l, EveryPosition, true)
	}
}

// dropLocked takes l out of the map if no watch and no cursor stands in it.
func (s *Shard[K]) dropLocked(l *keyList[K]) {
	if !l.idle() {
		return
	}
	if l.signalled {
		s.unqueueLocked(l)
	}
	s.mu.keys.remove(l)
}

// Tried counts tries that a check of key has made, and how many of them were wasted.
func (s *Shard[K]) Tried(key K, hash uint64, tries, wasted int64) {
	if s.observer.CountsKeys() {
		s.mu.Lock()
		s.observer.Tried(key, hash, tries, wasted)
		s.unlock()
	}
	s.tries.Add(tries) // first, so that who reads wasted first never finds more of these
	if wasted > 0 {
		s.wasted.Add(wasted)
	}
}

// Keys appends the counts of keys: to hot those of the keys with the most operations and
// tries, to expiring those of the keys with the most expiries.
func (s *Shard[K]) Keys(hot, expiring []stats.KeyCounts[K]) (_, _ []stats.KeyCounts[K]) {
	s.mu.Lock()
	defer s.unlock()
	return s.observer.Keys(hot, expiring, s.waitingLocked)
}

// Totals adds the counts of s to t.
func (s *Shard[K]) Totals(t *Totals) {
	s.mu.Lock()
	for o, n := range s.mu.counts {
		t.Counts[o] += n
	}
	t.Accepted += s.mu.accepted
	t.Keys += int(s.mu.keys.len)
	t.Watched += int(s.mu.watched)
	t.Signals += s.mu.signals.made
	if t.Times != nil {
		s.observer.AddTimes(t.Times)
	}
	s.unlock()
	t.Met += s.met.Load()
	t.Wasted += s.wasted.Load() // before tries, see Tried
	t.Checks += s.tries.Load()
}

// Totals is the sum of the counts of all shards. For the fields, see [Shard]
// and signalQueue.
type Totals struct {
	Counts
	Accepted       int64
	Keys, Watched  int
	Met            int64 // neither in Accepted nor in Counts
	Checks, Wasted int64
	Signals        int64

	Times *stats.Times // nil if it is not wanted, or not counted
}

// Pending returns how many operations have been accepted and have not ended. The shards
// are read one after the other, so the number is not exact while operations come and go.
// It is never negative.
func (t *Totals) Pending() int64 {
	n := t.Accepted
	for _, ended := range t.Counts {
		n -= ended
	}
	return max(n, 0)
}
