package watchers

import (
	"reflect"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/machine"
)

// Visit is of a goroutine that is inside a shard, because it runs methods of its operations: a walk from its first
// try to its last callback, or an ending while it runs callbacks.
type Visit[K comparable] struct {
	Inside int // how many there were, with this one; 0: it has not entered
	place  *place[K]
}

// place is what a shard knows of a visit. The shard's lock guards it; Exit clears taken without.
type place[K comparable] struct {
	next  *place[K]
	taken atomic.Bool // not explored: no promise but that of BlockedFor rests on it
	key   K
	kind  reflect.Type  // of the operation whose method runs, or of another one that waits for key
	since time.Duration // when Blocked saw it first, plus 1 ns; 0: not yet
}

const (
	insideBits  = 22
	answeredMax = 1 << (64 - insideBits) // answered operations are counted modulo this
)

func (s *Shard[K]) enterLocked(key K, m *machine.Machine) Visit[K] {
	p := &s.mu.place
	for p.taken.Load() {
		if p.next == nil {
			p.next = new(place[K])
		}
		p = p.next
	}
	p.taken.Store(true)
	p.key = key
	p.runsLocked(m)
	return Visit[K]{int(s.gate.Add(1) % (1 << insideBits)), p}
}

// runsLocked notes that methods of m, and perhaps of others, are about to run.
func (p *place[K]) runsLocked(m *machine.Machine) { p.kind, p.since = reflect.TypeOf(m.Operation()), 0 }

// Enter must be called before callbacks of m and of others, which have ended under key, run, unless there is a Visit.
func (s *Shard[K]) Enter(key K, m *machine.Machine) Visit[K] {
	s.lock()
	defer s.unlock()
	return s.enterLocked(key, m)
}

// Exit must be called when the callbacks of so many operations have run.
func (s *Shard[K]) Exit(v Visit[K], answered int) {
	v.place.taken.Store(false)
	s.gate.Add(uint64(answered)<<insideBits - 1)
}

// Unanswered returns how many operations have been accepted and are not answered: none, if there was a moment during
// the call at which there were none. No operation is answered before it is accepted, and Unanswered reads all answered
// counts before the first accepted count. Both only grow, so if the sums are equal, they were equal between the two
// passes.
func (w *Watchers[K]) Unanswered() int {
	answered := w.Totals(nil).Answered
	return int((uint64(w.Totals(nil).Accepted) - answered) % answeredMax)
}

// Seen is an operation that a shard has seen, without a reference to it.
type Seen[K comparable] struct {
	Key    K
	Kind   reflect.Type  // of the operation; nil: there is none
	At     time.Duration // its deadline, if it has expired, on the timer's clock
	For    time.Duration // how long it had waited when it expired; or for how long, at least, its method runs
	Checks uint32        // walks over the key that have begun since an operation waited for it
}

// Blocked returns what has been running for longest, callbacks or a group of tries, since a call of Blocked has seen
// it. Skip is for how long nothing has run since the last call, because the process stalled: it does not count. Places
// of visits that are over are let go of.
func (w *Watchers[K]) Blocked(now, skip time.Duration) (longest Seen[K]) {
	for s := range w.Shards() {
		s.lock()
		for p := &s.mu.place; p != nil; p = p.next {
			for p.next != nil && !p.next.taken.Load() {
				p.next = p.next.next
			}
			switch {
			case !p.taken.Load():
				var none K
				p.key = none
			case p.since == 0:
				p.since = now + 1
			default:
				p.since = min(p.since+skip, now+1)
				if running := now + 1 - p.since; running > longest.For {
					longest = Seen[K]{Key: p.key, Kind: p.kind, For: running}
				}
			}
		}
		s.unlock()
	}
	return longest
}
