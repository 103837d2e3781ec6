package purgatory

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/stats"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

// Histogram counts durations in 24 buckets with fixed bounds, each twice the one
// before: Counts[i] is the number of durations over Bound(i-1) and up to Bound(i), and Sum is the
// sum of all in seconds. Count, Quantile and Since evaluate it.
type Histogram = stats.Histogram

// Stats is a snapshot of a purgatory's counters and gauges. Counters begin at 0 in New
// and never decrease. While no operation comes or goes, Accepted is the sum of Pending
// and the five outcomes. Otherwise the fields may differ by the operations that come and
// go while Stats reads them.
type Stats struct {
	Pending  int64 // operations that have been accepted and have not ended
	Watched  int64 // entries in watcher lists: an operation has one for each key
	Keys     int64 // keys that operations wait for
	Stale    int64 // of Watched: entries of ended operations, in a list whose lock was contended when they ended
	Accepted int64 // operations that have been accepted

	Satisfied, Forced, Expired, Cancelled, Closed int64 // ended, by outcome

	// Rejected counts the operations that were not accepted: closed, full (or a timer that is shared), bad input.
	Rejected                                    int64
	RejectedClosed, RejectedFull, RejectedInput int64

	Checks       int64 // calls of TryComplete by checks; those during a registration do not count
	WastedChecks int64 // of Checks: TryComplete returned false
	Signals      int64 // signals of a key
	Purged       int64 // entries that purges have removed
	Panics       int64 // panics in operations' methods and in other functions of the user's

	// Unchecked is the number of operations that have expired and to which no check had come, nor was about to:
	// perhaps a CheckAndComplete is missing.
	Unchecked int64
	// GaveUp is the number of waits that their contexts have ended. PassedOver is the number of those that were not tried
	// because of that.
	GaveUp, PassedOver int64

	MaxPending       int64 // the bound of WithMaxPending; 0: none, or nobody may wait
	TimeoutsExpected bool  // WithTimeoutsExpected: that operations expire is no sign of trouble

	// Running is how many keys are being tried, and how many goroutines run callbacks, once for each level of nested
	// calls.
	Running int64
	// BlockedFor is for how long, at least, a callback or a check's TryComplete has been running: something blocks it. The
	// callbacks of what one call ends count as one, and so do eight tries. It begins when a sweep of the reaper, or a call of
	// Stats, finds it running, and so is up to 0.2 s too low; where no reaper runs, as where nothing ever had a timeout, it
	// begins with a call of Stats. A stall of the reaper does not count. [Inspection] names the operation.
	BlockedFor time.Duration

	// Due is a lower bound on how many entries of the timer have expired and wait for a worker, and OldestDue is for
	// how long the first has. Other purgatories that share the timer count, too.
	Due       int64
	OldestDue time.Duration

	ReaperStalls int64 // how often the reaper ran much later than planned

	// Waited is how long operations had been waiting when they ended, indexed by
	// [operation.Outcome]; nil without [WithDiagnostics]. Operations that did not have to wait count as 0.
	Waited *[operation.NumOutcomes]Histogram
}

// Ended returns the number of operations that ended with o.
func (s Stats) Ended(o operation.Outcome) int64 {
	return [operation.NumOutcomes]int64{0, s.Satisfied, s.Forced, s.Expired, s.Cancelled, s.Closed}[o]
}

// Stats returns the purgatory's counters and gauges, in O(shards). It may be called from
// any callback and under any lock.
func (p *Purgatory[K]) Stats() Stats {
	p.made()
	var waited *stats.Waited
	if p.cfg.diagnostics {
		waited = new(stats.Waited)
	}
	t := p.watchers.Totals(waited)
	s := Stats{
		Pending:        t.Pending(),
		Accepted:       t.Accepted + t.Met,
		Watched:        int64(t.Watched),
		Keys:           int64(t.Keys),
		Stale:          int64(p.watchers.Stale()),
		Satisfied:      t.Counts[machine.Satisfied] + t.Met,
		Forced:         t.Counts[machine.Forced],
		Expired:        t.Counts[machine.Expired],
		Cancelled:      t.Counts[machine.Cancelled],
		Closed:         t.Counts[machine.Closed],
		RejectedClosed: p.refused.closed.Load(),
		RejectedFull:   p.refused.full.Load(),
		RejectedInput:  p.refused.input.Load(),
		Checks:         t.Checks,
		WastedChecks:   t.Wasted,
		Signals:        t.Signals,
		Purged:         p.purged.Load(),
		Panics:         p.records.Panics(),
		Unchecked:      t.Unchecked,
		GaveUp:         p.gaveUp.Load(),
		PassedOver:     p.passedOver.Load(),
		MaxPending:     int64(max(0, p.cfg.maxPending)),
		Running:        int64(t.Inside),
		BlockedFor:     p.watchers.Blocked(p.timer.Now(), 0).For,
		ReaperStalls:   p.stalls.Load(),
		Waited:         waited,
	}
	s.TimeoutsExpected = p.cfg.timeoutsExpected
	due, oldest := timer.Due(p.timer)
	s.Due, s.OldestDue = int64(due), oldest
	s.Rejected = s.RejectedClosed + s.RejectedFull + s.RejectedInput
	return s
}

// NumDelayed returns the number of pending operations, in O(shards).
func (p *Purgatory[K]) NumDelayed() int {
	p.made()
	t := p.watchers.Totals(nil)
	return int(t.Pending())
}

// Watched returns the number of entries in watcher lists, in O(shards). An
// operation has one for each of its keys.
func (p *Purgatory[K]) Watched() int {
	p.made()
	return p.watchers.Totals(nil).Watched
}
