package watchers

import (
	"sync/atomic"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
)

// Shard is a part of the keys with one lock. It is safe for concurrent use.
//
// It is laid out in cache lines. Who registers and who ends an operation are mostly on
// different processors, and each line that they write has to move from one to the other:
// one line for a key, one more for the operation's first, a third for the spare watches.
// The allocator begins an array of shards at a line, or 8 bytes behind: so what is
// written together is 56 bytes at most, and the 8 after it are read, or seldom written.
type Shard[K comparable] struct {
	Checks Checks

	// stale holds watches of ended operations that could not be unlinked
	// because mu was taken. Its lock is taken with or without mu, never before it.
	stale struct {
		sched.Mutex
		watches []*operation.Watch
	}

	observer *observer[K] // nil: nobody asked for more than counts

	mu struct {
		sched.Mutex
		closed  bool
		running int32 // goroutines inside callbacks, see Leave
		watched int
		keys    table[K]

		counts   Counts
		arriving int // goroutines between Leave and Queue

		spare operation.Spare

		queue   []*operation.Machine // ended operations whose callbacks wait for one that runs
		stuck   int                  // length of queue when Stuck last looked
		signals signalQueue[K]
	}

	all   *Watchers[K]
	index int
}

// Counts is what became of the operations that are at home in a shard, by outcome;
// under Pending are those that have been accepted and have not ended. A single shard's
// can be negative; the sum over all shards is the truth.
type Counts [operation.Outcomes]int64

// Checks counts the tries of operations that are not being registered.
type Checks struct {
	Run       atomic.Int64 // TryComplete calls
	Wasted    atomic.Int64 // of them, those that said no
	Signals   atomic.Int64
	Coalesced atomic.Int64 // signals that found their key signalled already
}

func (s *Shard[K]) init(all *Watchers[K], index int) {
	s.all, s.index = all, index
	s.observer = newObserver[K](all.observe, len(all.shards), all.now)
}

// Watch links the i-th watch of m, which the caller holds, under key. For the
// first watch m is counted as pending. It fails if the shard is closed.
//
// The order of positions is that of the numbers; those with equal positions stand
// in the order in which they came.
func (s *Shard[K]) Watch(m *operation.Machine, i int, key K, hash uint64, position int64) bool {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return false
	}
	if i == 1 {
		s.mu.spare.Lend(m)
	}
	l := s.mu.keys.findOrAdd(s, key, hash)
	if position == Any {
		l.unordered.Link(m, i, position, l.unordered.Last())
	} else {
		l.link(m, i, position)
	}
	s.mu.watched++
	if i == 0 {
		s.mu.counts[operation.Pending]++
	}
	if s.observer != nil {
		s.observer.watched(m, i, l)
	}
	s.mu.Unlock()
	return true
}

// unlinkLocked takes w, of this shard, out of its list, and the key out of the map
// if that was its last. The operation ends with o; Pending: that is not known.
func (s *Shard[K]) unlinkLocked(w *operation.Watch, o operation.Outcome) {
	l := w.List().Home().(*keyList[K])
	if s.observer != nil {
		s.observer.unlinked(l, o, 1, w.Machine().Start())
	}
	w.Unlink()
	s.mu.watched--
	s.dropLocked(l)
}

// dropLocked forgets l if nothing stands in it.
func (s *Shard[K]) dropLocked(l *keyList[K]) {
	if l.idle() {
		s.mu.keys.remove(l)
	}
}

// Totals adds what s knows to t.
func (s *Shard[K]) Totals(t *Totals) {
	s.mu.Lock()
	t.Keys += int(s.mu.keys.len)
	t.Watched += s.mu.watched
	for o, n := range s.mu.counts {
		t.Counts[o] += n
	}
	t.Running += int(s.mu.running) + s.mu.arriving + len(s.mu.queue)
	if t.Times != nil && s.observer != nil && s.observer.times != nil {
		s.observer.times.addTo(t.Times)
	}
	s.mu.Unlock()
	t.Checks += s.Checks.Run.Load()
	t.Wasted += s.Checks.Wasted.Load()
	t.Signals += s.Checks.Signals.Load()
	t.Coalesced += s.Checks.Coalesced.Load()
}

// Totals sums over shards.
type Totals struct {
	Counts
	Keys, Watched      int
	Running            int // goroutines in callbacks, and callbacks that wait for one
	Checks, Wasted     int64
	Signals, Coalesced int64

	Times *Times // nil: not wanted
}
