package timer

import (
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// What the logger of WithLogger is told: the message of each record, which will not
// change.
const (
	// EventRefused: the executor of WithExecutor refused work, which is offered again.
	// Warn: error.
	EventRefused = "purgatory.executor.refused"
	// EventManyTimers: a program has far more timers than it can need; said once. Warn:
	// timers (how many), hint.
	EventManyTimers = "purgatory.timers.many"
)

// retryAfter is how long due work waits that the executor has refused.
const retryAfter = 10 * time.Millisecond

// refused sees to it that what is due is offered to the executor again.
func (t *SystemTimer) refused(err error) {
	t.logger.Warn(EventRefused, "error", err)
	tick := int64(Deadline(t.Now(), retryAfter))/t.tick + 1
	sched.Yield()
	t.retry.Store(tick)
	t.wakeBy(tick)
}

// offerAgain asks for workers again where the executor has refused.
func (t *SystemTimer) offerAgain(now time.Duration) {
	if sched.Yield(); t.retry.Load() > int64(now)/t.tick {
		return
	}
	t.retry.Store(never)
	if t.waiting() {
		t.pool.Kick()
	}
}
