package timer

import (
	"errors"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
)

// retryAfter is how long due work waits that the executor has refused.
const retryAfter = 10 * time.Millisecond

// errExecutor is what is logged for an executor that panics instead of refusing.
var errExecutor = errors.New("timer: the executor did not return")

// guarded returns execute so that its panic is a refusal, and goes to h.
func guarded(execute func(func()) error, h guard.Handler) func(func()) error {
	if execute == nil {
		return nil
	}
	return func(run func()) (err error) {
		err = errExecutor
		guard.Call(func() { err = execute(run) }, h)
		return err
	}
}

// refused sees to it that what is due is offered to the executor again.
func (t *SystemTimer) refused(err error) {
	t.logger.Warn("purgatory.executor.refused", "error", err)
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
