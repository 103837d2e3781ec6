package watchers

import (
	"reflect"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
)

// Visit is of a goroutine that runs methods of a key's operations: a walk from its first try to its last callback, or
// an ending while it runs callbacks. A shard has them in a list, and uses them again. Its lock guards them; whoever has
// taken one may use what is exported.
type Visit[K comparable] struct {
	Wait[K]     // its key, and of a walk the position up to which it goes
	Place   int // in the list, from 1

	Group machine.Group // Group[:N] is what a walk has read last
	N     int           // 0: it has paused, or is over

	shard *shard[K]
	next  *Visit[K]
	taken atomic.Bool   // cleared without the lock; not explored: a drain that sees it for too long looks again
	kind  reflect.Type  // of the operation whose method runs, or of another one that waits for Key
	since time.Duration // when Totals saw it first, plus 1 ns; 0: not yet

	list   *keyList[K] // of a walk; nil: it is over
	number uint32      // of the list, when the walk began
	again  int         // how often it has begun at the head again
	rest   int         // operations that it may still visit
	placed bool        // there were positions when the pass began
}

// enterLocked must be followed by runsLocked.
func (s *shard[K]) enterLocked(key K, hash uint64) *Visit[K] {
	v, place := &s.mu.visit, 1
	for ; v.taken.Load(); place++ {
		if v.next == nil {
			v.next = &Visit[K]{shard: s}
		}
		v = v.next
	}
	v.taken.Store(true)
	v.Key, v.Hash, v.Place = key, hash, place
	return v
}

// runsLocked notes that methods of m, and perhaps of others, are about to run.
func (v *Visit[K]) runsLocked(m *machine.Machine) *Visit[K] {
	v.kind, v.since = reflect.TypeOf(m.Operation()), 0
	return v
}

// Enter must be called before callbacks of m and of others that have ended under the key of at run, unless there is a
// Visit. passes: m is satisfied before it is watched, and so is counted; then Enter returns nil when Config.Closed is
// true.
func (w *Watchers[K]) Enter(at Wait[K], m *machine.Machine, passes bool) *Visit[K] {
	s := w.shard(at.Hash)
	s.lock()
	defer s.mu.Unlock()
	if passes {
		if w.config.Closed.Load() {
			return nil
		}
		s.mu.accepted++
		s.mu.ended[machine.Satisfied]++
		if s.waited != nil {
			s.waited[machine.Satisfied].Add(0, 1)
		}
	}
	return s.enterLocked(at.Key, at.Hash).runsLocked(m)
}

// Exit must be called when an ending's callbacks have run.
func (v *Visit[K]) Exit() { v.taken.Store(false) }

// Answered counts an operation whose callbacks have run.
func (v *Visit[K]) Answered() { v.shard.answered.Add(1) }

// Seen is an operation that a shard has seen, without a reference to it.
type Seen[K comparable] struct {
	Key    K
	Kind   reflect.Type  // of the operation; nil: there is none
	At     time.Duration // its deadline, if it has expired, on the timer's clock
	For    time.Duration // how long it had waited when it expired; or for how long, at least, its method runs
	Checks uint32        // walks over the key that have begun since an operation waited for it
}

// lookLocked counts who is inside, and finds what has been running for longest, callbacks or a group of tries. Visits
// that are over are let go of.
func (s *shard[K]) lookLocked(t *Totals[K], now, skip time.Duration) {
	for v := &s.mu.visit; v != nil; v = v.next {
		for v.next != nil && !v.next.taken.Load() {
			v.next = v.next.next
		}
		if !v.taken.Load() {
			v.Key = *new(K)
			continue
		}
		t.Inside++
		if v.since == 0 {
			v.since = now + 1
		}
		v.since = min(v.since+skip, now+1)
		if running := now + 1 - v.since; running > t.Blocked.For {
			t.Blocked = Seen[K]{Key: v.Key, Kind: v.kind, For: running}
		}
	}
}
