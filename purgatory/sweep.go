package purgatory

import (
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
)

// AdvanceClock expires what is due, and purges. The reaper does this in a loop; call
// AdvanceClock yourself on a manual clock, or if you use [WithoutReaper].
//
// On the system's clock it blocks until the tick of something in the timer has come, at most for d, and
// reports whether one has (see [timer.SystemTimer.AdvanceClock]); expiry workers run the callbacks. Do not call it
// from a callback.
//
// On a manual clock it moves the time by d and reports whether an operation, or a task of the timer, has expired;
// the callbacks have run on this goroutine when it returns (but with [WithCallbacksOnWorkers]). If another AdvanceClock is
// moving the clock, as when a callback calls it, it adds d to that move and returns false
// at once.
func (p *DelayedOperationPurgatory[K]) AdvanceClock(d time.Duration) bool {
	p.made()
	expired := p.timer.AdvanceClock(d)
	p.sweep(0)
	return expired
}

// sweep is the second job of the reaper: it purges, and looks for stuck callbacks and for expired
// operations that wait. stalled is how long the reaper has stalled, 0 if it has not.
//
// Another goroutine logs what sweep has found: the logger, or the String method of a key, may block,
// and the clock must not wait for it. While that goroutine works, sweep logs nothing.
func (p *DelayedOperationPurgatory[K]) sweep(stalled time.Duration) {
	purged := p.purge()
	p.noteGates(stalled > 0)
	if p.records.Off() || p.reporting.Swap(true) {
		return
	}
	due, waited := p.overdue()
	stuck := p.observed.TakeStuck()
	if stalled == 0 && purged == 0 && due == 0 && stuck == nil {
		p.reporting.Store(false)
		return
	}
	sched.Go(func() {
		defer p.reporting.Store(false)
		if stalled > 0 {
			p.records.Log(slog.LevelWarn, EventStalled, "elapsed", stalled, "interval", p.cfg.reapInterval)
		}
		if purged > 0 {
			p.records.Log(slog.LevelDebug, EventPurged, "entries", purged)
		}
		if due > 0 {
			p.records.Log(slog.LevelWarn, EventDue, "due", due, "elapsed", waited)
		}
		if stuck != nil {
			stuck()
		}
	})
}

// purge unlinks the stale watches, and returns their number.
func (p *DelayedOperationPurgatory[K]) purge() (n int) {
	n = p.watchers.Purge()
	p.purged.Add(int64(n))
	return n
}

// reap returns the function that the reaper calls after each AdvanceClock. It sweeps, and compares the
// time since the last sweep with the reap interval: more than twice the interval, and at
// least 100 ms more than it, is a stall.
func (p *DelayedOperationPurgatory[K]) reap() func() {
	interval := p.cfg.reapInterval
	stalled := timer.Deadline(interval, max(interval, 100*time.Millisecond))
	last := sched.Now()
	return func() {
		elapsed := sched.Since(last)
		if elapsed > stalled {
			p.stalls.Add(1)
		} else {
			elapsed = 0
		}
		last = sched.Now()
		p.sweep(elapsed)
	}
}

// dueLimit is how long an expired operation may wait for a worker before it is logged, and
// how often overdue asks the timer: a busy reaper sweeps many times a second.
const dueLimit = time.Second

// overdue returns how many expired operations wait for a worker, and how long the oldest has, if it
// is time to log that. The caller has set reporting.
func (p *DelayedOperationPurgatory[K]) overdue() (n int, oldest time.Duration) {
	if now := p.timer.Now(); now-p.dueSeen >= dueLimit {
		p.dueSeen = now
		n, oldest = timer.Due(p.timer)
	}
	if oldest <= dueLimit {
		return 0, 0
	}
	return n, oldest
}

// gateInterval is how long after one noteGates the next one reads the gates at the earliest: a busy
// reaper sweeps many times a second.
const gateInterval = 200 * time.Millisecond

// noteGates notes in a sweep in which gates user code runs, for [Stats.BlockedFor]. After a stall
// of the reaper it begins anew: the user code did not run meanwhile either.
func (p *DelayedOperationPurgatory[K]) noteGates(stalled bool) {
	now := p.timer.Now()
	if stalled || now-time.Duration(p.gatesSeen.Load()) >= gateInterval {
		p.gatesSeen.Store(int64(now))
		p.watchers.Blocked(now, stalled)
	}
}
