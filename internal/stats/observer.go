// Package stats counts what a purgatory reports if WithHistograms or WithKeyStats asks
// for it: the ages of pending operations, the waits of ended ones, how late they expired,
// and the keys with the most operations, tries and expiries.
package stats

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
)

// Config says what is observed.
type Config struct {
	Times bool                 // whether to count ages, waits and lateness
	Keys  int                  // number of keys to count separately; 0 for none
	Now   func() time.Duration // the timer's clock
}

// Observer counts what happens in one shard of the watchers. It is not safe for
// concurrent use: the shard's lock guards it. A nil Observer counts nothing.
type Observer[K comparable] struct {
	times *Times          // nil if not wanted
	keys  *keyObserver[K] // nil if not wanted
	now   func() time.Duration
}

// minKeys is the smallest number of keys that a shard counts separately.
const minKeys = 4

// NewObserver returns the observer of one of shards shards. It returns nil if c asks for
// nothing.
func NewObserver[K comparable](c Config, shards int) *Observer[K] {
	if !c.Times && c.Keys == 0 {
		return nil
	}
	o := &Observer[K]{now: c.Now}
	if c.Times {
		o.times = new(Times)
	}
	if c.Keys > 0 {
		n := max((c.Keys+shards-1)/shards, minKeys)
		o.keys = new(keyObserver[K])
		o.keys.hot.init(n)
		o.keys.expiring.init(n)
	}
	return o
}

// Watched counts that m has begun to wait for key. first says whether key is the first
// key of m.
func (o *Observer[K]) Watched(m *machine.Machine, first bool, key K, hash uint64) {
	if o == nil {
		return
	}
	if o.times != nil && first {
		o.times.ages.started(m.Start())
	}
	if o.keys != nil {
		o.keys.hot.count(key, hash, 1, m.Start()).Watched++
	}
}

// Unwatched counts that m, which ends with outcome, has stopped waiting for key.
func (o *Observer[K]) Unwatched(m *machine.Machine, outcome machine.Outcome, key K, hash uint64) {
	if o != nil && o.keys != nil {
		o.keys.unwatched(key, hash, outcome, m.Start())
	}
}

// Now returns the time to pass to Ended. It does not read the clock, and returns 0, if
// Ended does not use the time.
func (o *Observer[K]) Now() time.Duration {
	if o == nil || o.times == nil {
		return 0
	}
	return o.now()
}

// Ended counts that m, which was watched, ends with outcome at time now. The caller holds
// m.
func (o *Observer[K]) Ended(m *machine.Machine, outcome machine.Outcome, now time.Duration) {
	if o == nil || o.times == nil {
		return
	}
	o.times.ages.ended(m.Start())
	o.times.Waited[outcome].add(now-m.Start(), WaitUnit, 1)
	if outcome != machine.Expired {
		return
	}
	// The timer has let go of the entry, so no other goroutine writes the deadline.
	if deadline := m.Entry().Deadline(); deadline > 0 {
		o.times.Late.add(now-deadline, LateUnit, 1)
	}
}

// Passed counts the end of an operation that was never watched, as a wait of zero.
func (o *Observer[K]) Passed(outcome machine.Outcome) {
	if o != nil && o.times != nil {
		o.times.Waited[outcome].Counts[0]++
	}
}

// CountsTries reports whether Tried counts anything. If not, the caller can save the call.
func (o *Observer[K]) CountsTries() bool { return o != nil && o.keys != nil }

// Tried counts tries that a check of key has made, and how many of them were wasted.
func (o *Observer[K]) Tried(key K, hash uint64, tries, wasted int64) {
	if !o.CountsTries() {
		return
	}
	counts := o.keys.hot.count(key, hash, tries, o.now())
	counts.Tries += tries
	counts.Wasted += wasted
}

// AddTimes adds the times that o has counted to sum.
func (o *Observer[K]) AddTimes(sum *Times) {
	if o != nil && o.times != nil {
		o.times.AddTo(sum)
	}
}

// Forgotten counts an operation that was ready at its timeout, though nobody had checked key.
func (o *Observer[K]) Forgotten(key K, hash uint64) {
	if !o.CountsTries() {
		return
	}
	o.keys.hot.count(key, hash, 1, o.now()).Forgotten++
	if c := o.keys.expiring.find(key, hash); c != nil {
		c.Forgotten++
	}
}
