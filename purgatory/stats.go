package purgatory

import (
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/watchers"
)

// Stats is what a purgatory knows of itself. Counters count from New on. At a quiet
// moment Accepted is the sum of Pending and of the five outcomes; while operations
// come and go the fields may be apart by as many as do.
type Stats struct {
	Pending  int64 // operations that have been accepted and have not ended
	Watched  int64 // entries in watcher lists: an operation has one per key
	Keys     int64 // keys that have any
	Stale    int64 // of Watched: left behind by operations that ended, for the purge
	Accepted int64

	Satisfied, Forced, Expired, Cancelled, Closed int64 // ended, by outcome

	Rejected     int64 // not accepted: closed, full, bad input
	Checks       int64 // tries of waiting operations, those of registering not counted
	WastedChecks int64 // of Checks: said no
	Signals      int64
	Coalesced    int64 // of Signals: their key was marked already
	Purges       int64 // that found something
	Purged       int64 // entries that they took out
	Panics       int64 // in operations' methods

	// Timed says that the purgatory was made WithHistograms. Without it the rest is
	// empty.
	Timed bool
	// OldestAge is how long the oldest pending operation has been waiting, and Ages
	// how long all of them. Both are too high by at most 16.8 ms or 4/63 (6.4 %),
	// whichever is more: operations are told apart by start to that precision.
	OldestAge time.Duration
	Ages      Histogram
	// Waited is how long operations had been waiting when they ended, by outcome:
	// index it by operation.Outcome. Those that did not have to wait count as 0.
	// The clock is read once for all that one check ends together.
	Waited [operation.Outcomes]Histogram
	// Late is how long after its deadline an operation expired: what the timer and a
	// shortage of workers add to a timeout.
	Late Histogram
}

// Ended returns the number of operations that ended with o.
func (s Stats) Ended(o operation.Outcome) int64 {
	return [operation.Outcomes]int64{0, s.Satisfied, s.Forced, s.Expired, s.Cancelled, s.Closed}[o]
}

func (p *DelayedOperationPurgatory[K]) totals() (t watchers.Totals) {
	p.sum(&t)
	return t
}

func (p *DelayedOperationPurgatory[K]) sum(t *watchers.Totals) {
	shards := p.watchers.Shards()
	for i := range shards {
		shards[i].Totals(t)
	}
}

// Stats returns what the purgatory knows of itself. It costs O(shards).
func (p *DelayedOperationPurgatory[K]) Stats() Stats {
	var t watchers.Totals
	if p.cfg.observe.Times {
		t.Times = new(watchers.Times)
	}
	p.sum(&t)
	s := Stats{
		Pending:      max(t.Counts[operation.Pending], 0),
		Watched:      int64(t.Watched),
		Keys:         int64(t.Keys),
		Stale:        int64(p.watchers.Stale()),
		Satisfied:    t.Counts[operation.Satisfied],
		Forced:       t.Counts[operation.Forced],
		Expired:      t.Counts[operation.Expired],
		Cancelled:    t.Counts[operation.Cancelled],
		Closed:       t.Counts[operation.Closed],
		Rejected:     p.rejected.Load(),
		Checks:       t.Checks,
		WastedChecks: t.Wasted,
		Signals:      t.Signals,
		Coalesced:    t.Coalesced,
		Purges:       p.purges.Load(),
		Purged:       p.purged.Load(),
		Panics:       p.panics.Load(),
	}
	if t.Times != nil {
		s.addTimes(t.Times, p.timer.Now())
	}
	s.Accepted = s.Pending + s.Satisfied + s.Forced + s.Expired + s.Cancelled + s.Closed
	return s
}

func (s *Stats) addTimes(t *watchers.Times, now time.Duration) {
	s.Timed = true
	oldest, ages := t.Ages(now)
	s.OldestAge, s.Ages = oldest, histogram(&ages, watchers.WaitUnit)
	for o := range t.Waited {
		s.Waited[o] = histogram(&t.Waited[o], watchers.WaitUnit)
	}
	s.Late = histogram(&t.Late, watchers.LateUnit)
}

// NumDelayed returns the number of operations that are waiting, in O(shards).
func (p *DelayedOperationPurgatory[K]) NumDelayed() int {
	return int(max(p.totals().Counts[operation.Pending], 0))
}

// Watched returns the number of entries in watcher lists, in O(shards). An
// operation has one for each of its keys.
func (p *DelayedOperationPurgatory[K]) Watched() int { return p.totals().Watched }

// Keys returns the number of keys that somebody waits for, in O(shards).
func (p *DelayedOperationPurgatory[K]) Keys() int { return p.totals().Keys }

// idle reports whether no operation waits, no callback runs or waits to be run, and no
// worker does.
func (p *DelayedOperationPurgatory[K]) idle() bool {
	t := p.totals()
	return t.Counts[operation.Pending] <= 0 && t.Running == 0 && p.signals.Running() == 0 && !p.working()
}

// ended reports whether the goroutines that were told to stop have, the reaper's
// excepted.
func (p *DelayedOperationPurgatory[K]) ended() bool {
	return p.own == nil || p.own.Idle()
}
