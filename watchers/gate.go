package watchers

import (
	"reflect"
	"sync/atomic"
	"time"
)

const (
	insideBits  = 22
	answeredMax = 1 << (64 - insideBits) // answered operations are counted modulo this
)

// eras tell whether a callback blocks, with no clock and no lock on its way: a goroutine counts in the era in which it enters a gate until
// it exits, and the next era begins when nobody is left from the one before. So while somebody is left, he has been inside for as long
// as the era that goes on. One who reads the era and counts himself after its end is taken to have entered a moment earlier.
// They are not explored: no promise but that of BlockedFor rests on them.
type eras struct {
	now    atomic.Uint32    // written by Blocked, under the shard's lock
	inside [2]atomic.Uint64 // the sum of the visits of the even and of the odd eras
}

// Visit is of a goroutine inside a gate: 1, and above it a part of its key's hash. So the sum of one visit that is left names the key.
type Visit struct {
	era uint32
	id  uint64
}

const hashBits = 48

// Enter must be called before callbacks of operations that have ended under key run. It returns how many goroutines are inside. One that
// enters again inside a callback counts once for each level.
func (s *Shard[K]) Enter(key K) (inside int, v Visit) {
	v = Visit{s.eras.now.Load() % 2, s.all.Hash(key)<<(64-hashBits) | 1}
	s.eras.inside[v.era].Add(v.id)
	return int(s.gate.Add(1) % (1 << insideBits)), v
}

// Exit must be called when the callbacks of so many operations have run.
func (s *Shard[K]) Exit(answered int, v Visit) {
	s.eras.inside[v.era].Add(-v.id)
	s.gate.Add(uint64(answered)<<insideBits - 1)
}

// Answered counts an operation that has no callbacks.
func (s *Shard[K]) Answered() { s.gate.Add(1 << insideBits) }

// visitorLocked returns the operation of the visit that is left: the last one of its era, or another one that waits for its key. If it is neither,
// or several visits are left, it is the last one of the era, which may be another.
func (s *Shard[K]) visitorLocked(visit uint64) Seen[K] {
	last := Seen[K]{Key: s.mu.seen.key, Kind: s.mu.seen.kind}
	same := func(hash uint64) bool { return hash<<(64-hashBits)|1 == visit }
	if same(s.all.Hash(last.Key)) {
		return last
	}
	for _, l := range s.mu.keys.buckets {
		for ; l != nil; l = l.chain {
			if !same(l.hash) {
				continue
			}
			for w := l.First(); w != nil; w = l.Next(w) {
				if m := w.Machine(); m != nil { // not a mark
					return Seen[K]{Key: l.key, Kind: reflect.TypeOf(m.Operation())}
				}
			}
		}
	}
	return last
}

// Unanswered returns how many operations have been accepted and are not answered: none, if there was a
// moment during the call at which there were none. Both counts only grow, and no operation is answered before it is
// accepted. Unanswered reads all answered counts before the first accepted count. So if the sums are equal, they
// were equal between the two passes.
func (w *Watchers[K]) Unanswered() int {
	var answered uint64
	var total Totals
	for s := range w.Shards() {
		answered += s.gate.Load() >> insideBits
	}
	for s := range w.Shards() {
		s.Totals(&total)
	}
	return int((uint64(total.Accepted) - answered) % answeredMax)
}

// Inside returns the number of keys that are being tried, and of goroutines that run callbacks, once for each level of nested calls.
func (w *Watchers[K]) Inside() (n int) {
	for s := range w.Shards() {
		n += int(s.gate.Load() % (1 << insideBits))
		s.lock()
		n += int(s.mu.walks)
		s.unlock()
	}
	return n
}

// Seen is an operation that a shard has seen, without a reference to it.
type Seen[K comparable] struct {
	Key    K
	Kind   reflect.Type  // of the operation; nil: there is none
	At     time.Duration // its deadline, if it has expired, on the timer's clock
	For    time.Duration // how long it had waited when it expired, or, of one whose method runs, for how long that has, at least
	Checks uint32        // walks over the key that have begun since an operation waited for it
}

// Blocked returns the operation whose callback has been running for longest, as far as eras tell, or with whose try one began than which no
// other in its shard has ended since. Skip is for how long nothing has run since the last call, because the process stalled: it does not count.
func (w *Watchers[K]) Blocked(now, skip time.Duration) (longest Seen[K]) {
	for s := range w.Shards() {
		s.lock()
		seen := &s.mu.seen
		seen.began = min(seen.began+skip, now)
		if seen.since > 0 {
			seen.since = min(seen.since+skip, now+1)
		}
		switch {
		case s.mu.walks == 0:
			seen.since = 0
		case seen.since == 0 || seen.tries != s.mu.tries:
			seen.tries, seen.since = s.mu.tries, now+1
		case now+1-seen.since > longest.For:
			longest = s.mu.last
			longest.For = now + 1 - seen.since
		}
		era := s.eras.now.Load()
		left := s.eras.inside[(era+1)%2].Load()
		if left == 0 {
			seen.began, seen.key, seen.kind = now, s.mu.last.Key, s.mu.last.Kind
			s.eras.now.Store(era + 1)
		} else if now-seen.began > longest.For && seen.kind != nil {
			longest = s.visitorLocked(left)
			longest.For = now - seen.began
		}
		s.unlock()
	}
	return longest
}
