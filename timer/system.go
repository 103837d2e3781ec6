package timer

import (
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/workers"
)

// SystemTimer is a timer on the system's monotonic clock. It is safe for concurrent use. One goroutine at a time drives
// it, by AdvanceClock: a purgatory's reaper, that of Start, or one of the user's. Expired tasks run on workers.
type SystemTimer struct {
	store
	pool workers.Pool

	alarm   *sched.Alarm // drives it; nil: a goroutine does
	driving sched.Mutex  // orders what the alarm does; lock level 1, see docs/internals/design.md

	started atomic.Bool // Start was called; not explored: one swap
	counted atomic.Bool // it counts in live, or has been stopped; not explored: one swap

	ended   chan struct{} // closed by Stop, at its end
	driver  sched.Token   // who has taken it is the driver; lock level 1, see docs/internals/design.md
	wakeup  sched.Token   // ends the driver's sleep
	sleeper sched.Sleeper // only the driver uses it
}

var (
	live       atomic.Int64 // SystemTimers that are driven and not stopped; not explored: only the warning depends on it
	warnedMany atomic.Bool  // not explored either
)

const tooManyTimers = 64

// NewSystemTimer returns a timer whose clock starts now, and that has to be driven: see [SystemTimer.Start]. Error:
// [ErrInvalid].
func NewSystemTimer(opts ...Option) (*SystemTimer, error) {
	t := &SystemTimer{store: store{base: sched.Now()}}
	if err := t.init(defaultShards(), opts, t); err != nil {
		return nil, err
	}
	t.pool.Init(t.workers, (*expiries)(t))
	t.ended, t.driver, t.wakeup = make(chan struct{}), sched.NewToken(), sched.NewToken()
	t.driver.Put()
	return t, nil
}

// count counts t in live. The logger is user code, so another goroutine calls it.
func (t *SystemTimer) count() {
	if !t.counted.Swap(true) && live.Add(1) > tooManyTimers && t.logger != nil && !warnedMany.Swap(true) {
		sched.Go(func() {
			defer guard.Recover(t.panicked)
			t.logger.Warn("purgatory.timers.many", "timers", live.Load(),
				"hint", "one timer serves a whole program; stop those that are no longer used")
		})
	}
}

// expiries is a SystemTimer as the job of its pool.
type expiries SystemTimer

func (e *expiries) Work() (ran bool) {
	if e.called.Load() && e.called.Swap(false) && !e.standing.Swap(true) {
		e.flush(e.clock.read())
		e.standing.Store(false)
	}
	return e.anyReady() && e.runDue()
}

func (e *expiries) Queued() bool { return e.anyReady() || e.called.Load() }

func (t *SystemTimer) read() time.Duration { return sched.Since(t.base) }

// Start starts a goroutine that drives the timer until Stop. Starting it again does nothing.
func (t *SystemTimer) Start() {
	if !t.started.Swap(true) {
		sched.Go(func() {
			for !t.stopped.Load() {
				t.AdvanceClock(time.Hour)
			}
		})
	}
}

func (t *SystemTimer) end() {
	if t.counted.Swap(true) {
		live.Add(-1)
	}
	close(t.ended)
}

// Idle reports whether no task is running or due. After Stop, true means that no worker runs.
func (t *SystemTimer) Idle() bool {
	return !(*expiries)(t).Queued() && t.pool.Running() == 0 // in this order: a worker that ends may start the next one
}
