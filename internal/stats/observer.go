// Package stats counts what a purgatory reports if WithHistograms or WithKeyStats asks
// for it: the ages of pending operations, the waits of ended ones, how late they expired,
// and the keys with the most operations, tries and expiries.
package stats

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
)

// Times is what WithHistograms reports.
type Times struct {
	// OldestAge is the age of the oldest pending operation, and Ages are those of all. Each
	// is too high by at most 16.8 ms or 1/16 of it, whichever is more.
	OldestAge time.Duration
	Ages      Histogram

	Waited [machine.NumOutcomes]Histogram // time from start to end of ended operations, by outcome; that of Pending is unused
	Late   Histogram                      // time from the deadline to the end of expired operations
}

// NewTimes returns empty Times, to which those of shards are to be added.
func NewTimes() *Times {
	t := &Times{Ages: Histogram{unit: WaitUnit}, Late: Histogram{unit: LateUnit}}
	for outcome := range t.Waited {
		t.Waited[outcome].unit = WaitUnit
	}
	return t
}

// Config says what is observed.
type Config struct {
	Times bool                 // whether to count ages, waits and lateness
	Keys  int                  // number of keys to count separately; 0 for none
	Now   func() time.Duration // the timer's clock
}

// Observer counts what happens in one shard of the watchers. It is not safe for
// concurrent use: the shard's lock guards it. A nil Observer counts nothing; only Passed,
// CountsKeys and Keys may be called for it.
type Observer[K comparable] struct {
	ages  ages   // unused if times is nil
	times *Times // nil if not wanted; AddTimes computes its ages
	now   func() time.Duration

	// The keys with the most operations and tries, and those with the most expiries. In a single
	// sketch, busy keys would displace a quiet key whose operations all expire.
	hot, expiring sketch[K]
	countsKeys    bool // constant; without it, both are empty
}

// minKeys is the smallest number of keys that a shard counts separately.
const minKeys = 4

// NewObserver returns the observer of one of shards shards. It returns nil if c asks for
// nothing.
func NewObserver[K comparable](c Config, shards int) *Observer[K] {
	if !c.Times && c.Keys == 0 {
		return nil
	}
	o := &Observer[K]{now: c.Now, countsKeys: c.Keys > 0}
	if c.Times {
		o.times = new(Times)
	}
	if c.Keys > 0 {
		n := max((c.Keys+shards-1)/shards, minKeys)
		o.hot, o.expiring = newSketch[K](n), newSketch[K](n)
	}
	return o
}

// Watched counts that m has begun to wait for key. first says whether key is the first
// key of m.
func (o *Observer[K]) Watched(m *machine.Machine, first bool, key K, hash uint64) {
	if first && o.times != nil {
		o.ages.started(m.Start())
	}
	if o.CountsKeys() {
		o.hot.count(key, hash, 1, m.Start()).Watched++
	}
}

// Unwatched counts that m, which ends with outcome, has stopped waiting for key. first is
// what it was in Watched. The ages include m until then: if the lock of this shard is
// contended, Unwatched is called a moment after Ended, which may be that of another shard.
func (o *Observer[K]) Unwatched(m *machine.Machine, first bool, outcome machine.Outcome, key K, hash uint64) {
	if first && o.times != nil {
		o.ages.ended(m.Start())
	}
	if !o.CountsKeys() {
		return
	}
	hot, expiring := o.hot.find(key, hash), o.expiring.find(key, hash)
	if outcome == machine.Expired {
		known := expiring != nil
		// The start in place of the time saves a reading of the clock: weights decay a little later.
		expiring = o.expiring.count(key, hash, 1, m.Start())
		if !known && hot != nil { // the other sketch has counted the key for longer
			expiring.Since, expiring.Ended = hot.Since, hot.Ended
		}
	}
	if hot != nil {
		hot.Ended[outcome]++
	}
	if expiring != nil {
		expiring.Ended[outcome]++
	}
}

// Ended counts that machines, which the caller holds and which were watched, end with
// outcomes now.
func (o *Observer[K]) Ended(machines []*machine.Machine, outcomes []machine.Outcome) {
	if o.times == nil {
		return
	}
	now := o.now()
	for i, m := range machines {
		o.times.Waited[outcomes[i]].add(now-m.Start(), WaitUnit, 1)
		// The timer has let go of the entry of an expired operation, so no other goroutine
		// writes the deadline.
		if outcomes[i] == machine.Expired && m.Entry().Deadline() > 0 {
			o.times.Late.add(now-m.Entry().Deadline(), LateUnit, 1)
		}
	}
}

// Passed counts the end of an operation that was never watched, as a wait of zero.
func (o *Observer[K]) Passed(outcome machine.Outcome) {
	if o != nil && o.times != nil {
		o.times.Waited[outcome].Counts[0]++
	}
}

// AddTimes adds the times that o has counted to sum. It must not be called if o does not
// count any.
func (o *Observer[K]) AddTimes(sum *Times) {
	sum.OldestAge = max(sum.OldestAge, o.ages.addTo(&sum.Ages, o.now()))
	for outcome := range sum.Waited {
		o.times.Waited[outcome].addTo(&sum.Waited[outcome])
	}
	o.times.Late.addTo(&sum.Late)
}
