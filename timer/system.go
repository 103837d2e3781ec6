package timer

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/workers"
)

// SystemTimer is a timer on the system's monotonic clock. It is safe for
// concurrent use.
//
// One goroutine at a time drives it, by AdvanceClock: a purgatory's reaper, the
// goroutine that Start starts, or the user. It sleeps until the next bucket that
// is not empty expires. If the runtime lets it oversleep, as it may while the garbage
// collector marks, whoever adds an entry then has a goroutine stand in for it. Expired
// tasks run on workers, never on the driver.
type SystemTimer struct {
	store
	base   time.Time
	pool   *workers.Pool
	logger *slog.Logger

	clock  struct{ sched.Mutex } // guards writes of wake
	wakeup chan struct{}         // capacity 1: the driver's sleep is to be cut short

	// retry is the tick at which due work that the executor has refused is offered
	// to it again. It is slept on as a shard's next is.
	retry atomic.Int64

	driver   chan struct{} // holds a token while somebody drives
	sleeper  *time.Timer   // the driver's only
	flushing sched.Mutex   // flush is for one at a time: the driver, or who stands in for it
	standIns atomic.Int32  // goroutines that do, see callStandIn

	started atomic.Bool
	stopped chan struct{}
	stopGo  atomic.Bool
}

// scanning is the value of wake while the driver computes it: later than any tick.
const scanning = math.MaxInt64

// live counts the program's running SystemTimers, for one warning, to the first
// logger that listens: each timer is made for hundreds of thousands of entries and
// has a goroutine of its own.
var (
	live       atomic.Int64
	warnedMany atomic.Bool
)

const tooManyTimers = 64

// NewSystemTimer returns a timer that somebody has yet to drive: see Start and
// AdvanceClock. Its clock starts now. Error: ErrInvalidOption.
func NewSystemTimer(opts ...Option) (*SystemTimer, error) {
	cfg, err := newConfig(defaultShards(), opts)
	if err != nil {
		return nil, err
	}
	t := &SystemTimer{
		base:    time.Now(),
		logger:  cfg.logger,
		wakeup:  make(chan struct{}, 1),
		driver:  make(chan struct{}, 1),
		stopped: make(chan struct{}),
		sleeper: time.NewTimer(0),
	}
	t.init(cfg)
	t.retry.Store(never)
	t.now = t.Now
	t.needed = t.wakeBy
	t.nudge = t.callStandIn
	t.pool = workers.New(cfg.workers, t.work, t.waiting, cfg.executor, t.refused, cfg.panicked)
	t.dueNow = t.pool.Kick
	if n := live.Add(1); n > tooManyTimers &&
		t.logger.Enabled(context.Background(), slog.LevelWarn) && !warnedMany.Swap(true) {
		t.logger.Warn(EventManyTimers, "timers", n,
			"hint", "one timer serves a whole program; stop those that are no longer used")
	}
	return t, nil
}

// Now returns the time since the timer's start. It is the only place where the
// clock is read.
func (t *SystemTimer) Now() time.Duration { return time.Since(t.base) }

func (t *SystemTimer) work() bool {
	found, _ := t.runDue(t.dueNow)
	return found
}

// Start starts a goroutine that drives the timer until Stop. For a timer that is
// used on its own; a purgatory's reaper drives the purgatory's. Starting it again
// does nothing.
func (t *SystemTimer) Start() {
	if t.started.Swap(true) {
		return
	}
	go func() {
		for !t.isStopped() {
			t.AdvanceClock(time.Hour)
		}
	}()
}

func (t *SystemTimer) isStopped() bool {
	select {
	case <-t.stopped:
		return true
	default:
		return false
	}
}

// Stop stops the timer for good and returns the tasks that had not fired, in no
// order: none of them will run. Tasks that workers have claimed already still
// run; Stop waits for nobody and may be called from a task. Stopping again
// returns nothing.
func (t *SystemTimer) Stop() (unfired []Task) {
	if t.stopGo.Swap(true) {
		return nil
	}
	live.Add(-1)
	unfired = t.stop()
	close(t.stopped)
	return unfired
}

// Idle reports whether no task is running or due. After Stop it says that the
// last worker has ended.
func (t *SystemTimer) Idle() bool {
	return t.pool.Running() == 0 && t.standIns.Load() == 0 && !t.waiting()
}
