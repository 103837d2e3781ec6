package purgatory

import (
	"time"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/stats"
	"github.com/delayedop/purgatory/operation"
)

// Histogram counts durations in 24 buckets with fixed bounds, each twice the one before: Counts[i] is the number of
// durations over Bound(i-1) and up to Bound(i), and Sum is the sum of all in seconds. Count and Quantile
// evaluate it.
type Histogram = stats.Histogram

// Stats is a snapshot of a purgatory's counters and gauges. Counters never decrease. Accepted is the sum of Pending and
// the five outcomes, but for what comes and goes while Stats reads them.
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

	Checks       int64 // operations that checks have tried; the tries of a registration, and further ones in a row, do not count
	WastedChecks int64 // of Checks: the operation did not end
	Signals      int64 // signals of a key, the library's own too; one that comes before anybody has waited may not count
	Purged       int64 // entries that purges have removed
	Panics       int64 // panics in user code, but for loggers and panic handlers

	Unchecked  int64 // have expired, and no check had come to them, nor was about to: perhaps a CheckAndComplete is missing
	GaveUp     int64 // waits that their contexts have ended, and operations that a call of Cancel itself has ended with an error of package context
	PassedOver int64 // waits that were not tried because their contexts had ended

	MaxPending       int64 // the bound of WithMaxPending; 0: none, or nobody may wait
	TimeoutsExpected bool  // WithTimeoutsExpected: that operations expire is no sign of trouble

	Running int64 // goroutines that check keys or run callbacks, once for each level of nested calls
	// BlockedFor is for how long, at least, a callback or a check's TryComplete has been running: something blocks it. The
	// callbacks of what one call ends count as one, and so do eight tries. It counts from when the reaper, which looks five
	// times a second, or Stats has found it running, and without stalls of the reaper. [Inspection] names it.
	BlockedFor time.Duration

	// Due is how many entries of the timer, at least, have expired and wait for a worker, and OldestDue for how long the
	// first has. Other purgatories that share the timer count, too.
	Due       int64
	OldestDue time.Duration

	ReaperStalls int64 // how often the reaper ran much later than planned

	// Waited is how long operations had been waiting when they ended, 0 if they did not have to, by [operation.Outcome];
	// nil without [WithDiagnostics].
	Waited *[operation.NumOutcomes]Histogram
}

// Ended returns the number of operations that ended with o.
func (s Stats) Ended(o operation.Outcome) int64 {
	return [operation.NumOutcomes]int64{0, s.Satisfied, s.Forced, s.Expired, s.Cancelled, s.Closed}[o]
}

// Stats returns the purgatory's counters and gauges, in O(shards). It may be called under any lock.
func (p *Purgatory[K]) Stats() Stats {
	t := p.watchers.Totals(0)
	s := Stats{
		Pending:        t.Pending,
		Accepted:       t.Accepted,
		Watched:        int64(t.Watched),
		Keys:           int64(t.Keys),
		Stale:          int64(t.Stale),
		Satisfied:      t.Ended[machine.Satisfied],
		Forced:         t.Ended[machine.Forced],
		Expired:        t.Ended[machine.Expired],
		Cancelled:      t.Ended[machine.Cancelled],
		Closed:         t.Ended[machine.Closed],
		RejectedClosed: p.refused.closed.Load(),
		RejectedFull:   p.refused.full.Load(),
		RejectedInput:  p.refused.input.Load(),
		Checks:         t.Checks,
		WastedChecks:   t.Wasted,
		Signals:        t.Signals,
		Purged:         t.Purged,
		Panics:         p.records.Panics(),
		Unchecked:      t.Unchecked,
		GaveUp:         p.gaveUp.Load(),
		PassedOver:     p.passedOver.Load(),
		MaxPending:     int64(max(0, p.cfg.maxPending)),
		Running:        int64(t.Inside),
		BlockedFor:     t.Blocked.For,
		ReaperStalls:   p.stalls.Load(),
		Waited:         t.Waited,
	}
	s.TimeoutsExpected = p.cfg.timeoutsExpected
	due, oldest := p.entries.Due()
	s.Due, s.OldestDue = int64(due), oldest
	s.Rejected = s.RejectedClosed + s.RejectedFull + s.RejectedInput
	return s
}

// NumDelayed returns the number of pending operations, in O(shards).
func (p *Purgatory[K]) NumDelayed() int { return int(p.watchers.Totals(0).Pending) }

// Watched returns the number of entries in watcher lists, in O(shards): an operation has one for each key.
func (p *Purgatory[K]) Watched() int { return p.watchers.Totals(0).Watched }
