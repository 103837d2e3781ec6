package watchers

import (
	"reflect"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// gate counts the goroutines that run callbacks of operations that have ended in a shard, and the operations whose
// callbacks have been run ("answered"): the first in the low bits, since an exit is one addition then.
type gate struct {
	state sched.Uint64
	seen  sighting
}

const (
	insideBits  = 22
	answeredMax = 1 << (64 - insideBits) // answered operations are counted modulo this
)

// Enter must be called before callbacks run. It returns how many goroutines are inside. One that enters again
// inside a callback counts once for each level.
func (s *Shard[K]) Enter() (inside int) { return int(s.gate.state.Add(1) % (1 << insideBits)) }

// Exit must be called when the callbacks of so many operations have run.
func (s *Shard[K]) Exit(answered int) { s.gate.state.Add(uint64(answered)<<insideBits - 1) }

// Unanswered returns how many operations have been accepted and are not answered: none, if there was a
// moment during the call at which there were none. Both counts only grow, and no operation is answered before it is
// accepted. Unanswered reads all answered counts before the first accepted count. So if the sums are equal, they
// were equal between the two passes.
func (w *Watchers[K]) Unanswered() int {
	var answered uint64
	var total Totals
	for s := range w.Shards() {
		answered += s.gate.state.Load() >> insideBits
	}
	for s := range w.Shards() {
		s.Totals(&total)
	}
	return int((uint64(total.Accepted) - answered) % answeredMax)
}

// Inside returns the number of keys that are being tried, and of goroutines that run callbacks, once for each level of nested calls.
func (w *Watchers[K]) Inside() (n int) {
	for s := range w.Shards() {
		n += int(s.gate.state.Load() % (1 << insideBits))
		s.lock()
		n += int(s.mu.walks)
		s.unlock()
	}
	return n
}

// sighting is what the last call of Blocked has seen of a shard: since when, in nanoseconds plus 1, a goroutine is inside and
// nothing has changed; 0 if none was.
//
// Its words are not explored: see [Watchers.Blocked] for two calls at a time.
type sighting struct{ state, since atomic.Int64 }

// Seen is an operation that a shard has seen, without a reference to it.
type Seen[K comparable] struct {
	Key    K
	Kind   reflect.Type  // of the operation; nil: there is none
	At     time.Duration // its deadline, if it has expired, on the timer's clock
	For    time.Duration // how long it had waited when it expired, or, of one whose method runs, for how long that has, at least
	Checks uint32        // walks over the key that have begun since an operation waited for it
}

// Blocked returns the operation that was tried or has ended last in the shard in which goroutines have been trying, or running callbacks, for
// longest, while none has finished. If anew is true it forgets what earlier calls have seen. Of two calls at a time one overwrites what the
// other has seen, and the time becomes shorter at most.
func (w *Watchers[K]) Blocked(now time.Duration, anew bool) (longest Seen[K]) {
	for s := range w.Shards() {
		s.lock()
		state := s.gate.state.Load()
		idle := state%(1<<insideBits) == 0 && s.mu.walks == 0
		sum, last := int64(state)+s.mu.tries<<1, s.mu.last
		s.unlock()
		seen := &s.gate.seen
		switch since := seen.since.Load(); {
		case idle:
			seen.since.Store(0)
		case anew || since == 0 || seen.state.Load() != sum:
			seen.state.Store(sum)
			seen.since.Store(int64(now) + 1)
		default:
			if last.For = now - time.Duration(since-1); last.For > longest.For && last.Kind != nil {
				longest = last
			}
		}
	}
	return longest
}
