package signals

import (
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// Stats describes a [Runner]. The counters start at 0 when [To] returns the Runner.
type Stats struct {
	Name     string // of WithName
	Running  bool   // Run has been called and has not returned
	Standing bool   // hints arrive: the source hears itself, or, if it cannot do so, it has called Missed, and has not ended since

	Hints     int64 // calls of Changed
	Unawaited int64 // of Hints: no operation waited for the key
	Gaps      int64 // calls of Missed during Run, except the first one
	Repeats   int64 // hints that WithLag has said again
	Audits    int64 // re-checks that were due to the interval of WithAudit
	Rechecks  int64 // how often every key was signalled
	BulkReads int64 // calls of the function of WithResync
	Failures  int64 // of BulkReads: returned an error, panicked, called runtime.Goexit, or did not return
	Ends      int64 // how often the source ended

	// SinceLastWord is the time since the source last called Changed, Missed or Heard, or since
	// To if it never has.
	SinceLastWord time.Duration
	// Reading is how long the bulk read that is in progress has been running; 0: there is none.
	Reading time.Duration
	// QueueUsed is how full the queue is in which the engine keeps hints for its subscribers,
	// from 0 to 1; negative: the source does not say. See [Queued].
	QueueUsed float64
	// Lag is the longest time after a hint at which a read was still behind it, as [Runner.Saw] was
	// told; 0: none was. A longer one may go unseen: the runner forgets a hint when others have been
	// repeated for the last time, at the earliest after LagAllowed, the option WithLag. Where Lag is longer than
	// that, waits have depended on audits.
	Lag, LagAllowed time.Duration
	// Blind says which changes the engine sends no hints for; empty: none that the source knows
	// of. See [Subscription].
	Blind string
	// Err is the error with which the source last ended, other than the end of its context;
	// nil if there was none.
	Err error
}

// Stats returns the current statistics. It reads some counters under a lock.
func (r *Runner[K]) Stats() Stats {
	// A number that is part of another one, or lies before it, is read first: hints and reads may come meanwhile.
	unawaited, failed, lastWord := r.unawaited.Load(), r.failed.Load(), r.lastWord.Load()
	s := Stats{
		Name:          r.cfg.name,
		Running:       r.running.Load(),
		Hints:         r.hints.Load(),
		Unawaited:     unawaited,
		Repeats:       r.repeats.count.Load(),
		Audits:        r.audits.Load(),
		Rechecks:      r.rechecks.Load(),
		BulkReads:     r.reads.Load(),
		Failures:      failed,
		SinceLastWord: sched.Since(r.began) - time.Duration(lastWord),
		QueueUsed:     -1,
		Lag:           time.Duration(r.lag.Load()),
		LagAllowed:    r.cfg.lag,
	}
	if reading := r.reading.Load(); reading > 0 {
		s.Reading = sched.Since(r.began) - time.Duration(reading)
	}
	r.mu.Lock()
	s.Standing = !r.mu.standing.IsZero() && (r.mu.hearing == nil || !r.mu.hearing.deafLocked())
	s.Gaps, s.Ends, s.Err, s.Blind = r.mu.gaps, r.mu.ends, r.mu.err, r.mu.blind
	queue := r.mu.queue
	r.mu.Unlock()
	if queue != nil {
		s.QueueUsed = queue.QueueUsed()
	}
	return s
}
