package purgatory

import (
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
)

// AdvanceClock expires what is due, and purges. The reaper does this in a loop; call it yourself on a manual clock, or
// with [WithoutReaper].
//
// On the system's clock it blocks until the tick of something in the timer has come, at most for d, and reports
// whether one has; workers run the callbacks. Do not call it from a callback there.
//
// On a manual clock it moves the time by d, and the callbacks of what expires have run on this goroutine when it
// returns; it reports whether anything has. If another AdvanceClock is moving the clock, as when a callback calls it,
// it adds d to that move and returns false at once.
func (p *Purgatory[K]) AdvanceClock(d time.Duration) bool {
	expired := p.entries.AdvanceClock(d)
	p.sweep(false)
	return expired
}

// sweep is the second job of the reaper: it purges, and looks for methods that do not return, and for expired operations
// that wait. While the reaper has stalled, nothing has run.
func (p *Purgatory[K]) sweep(stalled bool) {
	p.watchers.Purge()
	now := p.cfg.timer.Now()
	since := now - time.Duration(p.looked.Load())
	if !stalled && since < lookInterval {
		return
	}
	p.looked.Store(int64(now))
	if !stalled {
		since = 0
	}
	b := p.watchers.Totals(since).Blocked
	if last := time.Duration(p.stuckFor.Load()); b.For < stuckAfter {
		p.stuckFor.Store(0)
	} else if b.For < last || b.For >= 2*last {
		p.stuckFor.Store(int64(b.For))
		p.records.Log(slog.LevelWarn, EventStuck, func() []any {
			return []any{"operation", b.Kind.String(), "key", observe.Key(b.Key), "elapsed", b.For}
		})
	}
	if due, oldest := p.entries.Due(); oldest > lateAfter && now-time.Duration(p.late.Load()) >= lateAfter {
		p.late.Store(int64(now))
		p.records.Log(slog.LevelWarn, EventLate, func() []any { return []any{"due", due, "elapsed", oldest} })
	}
}

const (
	lookInterval = 200 * time.Millisecond // at least, between two looks: a busy reaper sweeps many times a second
	stuckAfter   = 2 * time.Second        // see EventStuck
	lateAfter    = time.Second            // see EventLate
)

// reap returns the function that the reaper calls after each AdvanceClock. It sweeps, and takes it for a stall if more
// than twice the reap interval has passed since the last time, and 100 ms more than it.
func (p *Purgatory[K]) reap() func() {
	interval := p.cfg.reapInterval
	limit := timer.Deadline(interval, max(interval, 100*time.Millisecond))
	last := sched.Now()
	return func() {
		stalled := sched.Since(last) > limit
		if stalled {
			p.stalls.Add(1)
		}
		last = sched.Now()
		p.sweep(stalled)
	}
}
