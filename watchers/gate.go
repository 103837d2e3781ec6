package watchers

import (
	"reflect"
	"time"
)

const (
	insideBits  = 22
	answeredMax = 1 << (64 - insideBits) // answered operations are counted modulo this
)

// Enter must be called before callbacks run. It returns how many goroutines are inside, once for each level of
// nesting.
func (s *Shard[K]) Enter() (inside int) { return int(s.gate.Add(1) % (1 << insideBits)) }

// Exit must be called when the callbacks of so many operations have run.
func (s *Shard[K]) Exit(answered int) { s.gate.Add(uint64(answered)<<insideBits - 1) }

// Unanswered returns how many operations have been accepted and are not answered: none, if there was a moment
// during the call at which there were none. Both counts only grow, an operation is accepted before it is
// answered, and all answered counts are read before the first accepted count: so if the sums are equal, they
// were equal between the passes.
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

// Inside returns the number of keys that are being tried, and of goroutines that run callbacks.
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
	For    time.Duration // how long it had waited when it expired, or for how long its method has been running, at least
	Checks uint32        // walks over the key that have begun since an operation waited for it
}

// Blocked returns what runs in the shard in which goroutines have been trying, or running callbacks, for
// longest, while none has finished. With anew it forgets what earlier calls have seen.
func (w *Watchers[K]) Blocked(now time.Duration, anew bool) (longest Seen[K]) {
	for s := range w.Shards() {
		s.lock()
		state := s.gate.Load()
		sum := int64(state) + s.mu.tries<<1
		switch since := s.mu.since; {
		case state%(1<<insideBits) == 0 && s.mu.walks == 0:
			s.mu.since = 0
		case anew || since == 0 || s.mu.seen != sum:
			s.mu.seen, s.mu.since = sum, now+1
		case now+1-since > longest.For && s.mu.last.Kind != nil:
			longest = s.mu.last
			longest.For = now + 1 - since
		}
		s.unlock()
	}
	return longest
}
