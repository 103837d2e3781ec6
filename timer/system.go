package timer

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/workers"
)

// EventManyTimers is the message of a record that a timer logs (see [WithLogger]) if the process
// has more than 64 SystemTimers that are driven and have not been stopped. Logged once per process. Level Warn; attributes timers
// (their number) and hint. The message does not change between releases.
const EventManyTimers = "purgatory.timers.many"

// SystemTimer is a timer on the system's monotonic clock. It is safe for concurrent use.
//
// One goroutine at a time drives it, by calling [SystemTimer.AdvanceClock]: the reaper of a
// purgatory, the goroutine of [SystemTimer.Start], or one of the user's. The driver sleeps
// until the next non-empty bucket expires. If the runtime wakes it late, as it may while the
// garbage collector marks, the next goroutine that adds an entry starts a goroutine that does
// the driver's work once. Expired tasks run on workers, not on the driver.
type SystemTimer struct {
	store
	base time.Time
	pool workers.Pool

	driving atomic.Pointer[driving] // nil until a goroutine is to drive the timer

	started atomic.Bool // Start was called
}

// driving is what those who drive a timer, or are to, wait for: a timer that is not used weighs little. See
// docs/decisions.md#an-unused-purgatory.
type driving struct {
	driver  sched.Token   // who has taken it is the driver; level 1 of the lock order, see docs/design.md
	sleeper sched.Sleeper // only the driver uses it
	wakeup  sched.Token   // ends the driver's sleep
	ended   chan struct{} // closed by Stop, at its end
	gone    atomic.Bool   // it is not in live any more
}

// leave takes d out of live. Stop calls it, and who has come after Stop.
func (d *driving) leave() {
	if !d.gone.Swap(true) {
		live.Add(-1)
	}
}

// drive returns what the caller, who is to drive t, waits for, and reports whether t runs. If it does, Stop ends the
// wait: Stop sets stopped before it looks for ended, and drive reads stopped after it has made ended.
func (t *SystemTimer) drive() (d *driving, runs bool) {
	if d = t.driving.Load(); d == nil {
		d = &driving{driver: sched.NewToken(), wakeup: sched.NewToken(), ended: make(chan struct{})}
		d.driver.Put()
		if t.driving.CompareAndSwap(nil, d) {
			t.countLive()
		} else {
			d = t.driving.Load()
		}
	}
	if runs = !t.stopped.Load(); !runs {
		d.leave()
	}
	return d, runs
}

// live counts the SystemTimers of the process that a goroutine drives and that have not been stopped. A timer
// serves hundreds of thousands of entries, so a process needs few. Beyond
// tooManyTimers, the first enabled logger gets one warning.
var (
	live       atomic.Int64
	warnedMany atomic.Bool
)

const tooManyTimers = 64

// NewSystemTimer returns a timer whose clock starts now. Nothing expires until a goroutine
// drives it, but for what is due when it is added: see [SystemTimer.Start] and [SystemTimer.AdvanceClock]. Stop it with
// [SystemTimer.Stop].
//
// Error: [ErrInvalidOption].
func NewSystemTimer(opts ...Option) (*SystemTimer, error) {
	t := &SystemTimer{base: sched.Now()}
	if err := t.init(defaultShards(), opts, t); err != nil {
		return nil, err
	}
	t.pool.Init(t.workers, (*expiries)(t))
	return t, nil
}

// countLive counts t. Another goroutine logs: the logger is user code, and the clock must not wait for it.
func (t *SystemTimer) countLive() {
	n := live.Add(1)
	if n <= tooManyTimers || warnedMany.Load() {
		return
	}
	warn := func() {
		if t.logger.Enabled(context.Background(), slog.LevelWarn) && !warnedMany.Swap(true) {
			t.logger.Warn(EventManyTimers, "timers", n,
				"hint", "one timer serves a whole program; stop those that are no longer used")
		}
	}
	sched.Go(func() { guard.Call(warn, t.panicked) })
}

// expiries is a SystemTimer as the job of its pool.
type expiries SystemTimer

func (e *expiries) Work() (ran bool) { return e.runDue() }
func (e *expiries) Queued() bool     { return e.anyReady() }

// Now returns the time since the timer's start. Nothing else reads the clock. Every use of a timer
// reads it, and panics where time is not the timer's: a SystemTimer that was made outside of a bubble
// of testing/synctest must not be used inside, nor the other way round.
func (t *SystemTimer) Now() time.Duration {
	now := sched.Since(t.base)
	if uint64(now) > uint64(decade) { // negative, too
		t.checkBubble()
	}
	return now
}

// decade is less than lies between the time of a bubble, which begins in 2000, and that outside.
const decade = 10 * 365 * 24 * time.Hour

// checkBubble panics if the caller is in a bubble and t is not, or the other way round. Times of a
// bubble have no monotonic reading, so a time that was made there equals itself without one.
func (t *SystemTimer) checkBubble() {
	if sched.InBubble() != (t.base == t.base.Round(0)) { //nolint:staticcheck // Equal would compare what Round keeps
		panic("timer: a SystemTimer that was made outside of a bubble of testing/synctest is used inside, or the other way round; make it where it is used")
	}
}

// Start starts a goroutine that drives the timer until [SystemTimer.Stop]. The reaper of a
// purgatory that uses the timer drives it too, so such a timer needs no Start. Starting it
// again does nothing.
func (t *SystemTimer) Start() {
	if t.started.Swap(true) {
		return
	}
	sched.Go(func() {
		for !t.stopped.Load() {
			t.AdvanceClock(time.Hour)
		}
	})
}

// Stop stops the timer for good, cancels all pending entries and returns what they stand for,
// in no order: each [Task] that was added and each [*Handle]. None of them will run. Entries of a purgatory's operations are cancelled too, but
// the operations are not returned: they do not expire, and the purgatory ends them when it
// closes. Tasks that workers have claimed still run; Stop does not wait for them and
// may be called from a task. Stopping again returns nothing.
func (t *SystemTimer) Stop() (unfired []any) {
	if t.stopped.Swap(true) {
		return nil
	}
	unfired = t.store.Stop()
	if d := t.driving.Load(); d != nil {
		d.leave()
		close(d.ended)
	}
	return unfired
}

// Idle reports whether no task is running or due. After [SystemTimer.Stop], true means that
// no worker runs; the goroutine of Start ends by itself.
func (t *SystemTimer) Idle() bool {
	return t.pool.Running() == 0 && t.standIns.Load() == 0 && !t.anyReady()
}
