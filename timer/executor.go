package timer

import "time"

// retryAfter is how long the timer waits before it offers refused work again.
const retryAfter = 10 * time.Millisecond

// refused makes the driver offer due work to the executor again, retryAfter from now.
func (t *SystemTimer) refused(err error) {
	t.retry.Store(int64(Deadline(t.now(), retryAfter)))
	t.wakeDriver() // the driver may have read retry before this Store
	t.logger.Warn(EventRefused, "error", err)
}

// offerAgain starts a worker if the executor has refused one and its retry time has come.
func (t *SystemTimer) offerAgain(now time.Duration) {
	if t.retry.Load() > int64(now) {
		return
	}
	t.retry.Store(never)
	if t.waiting() {
		t.pool.Kick()
	}
}
