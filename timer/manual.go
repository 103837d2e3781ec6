package timer

import (
	"time"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/sched"
)

// ManualTimer is a timer for tests. It is safe for concurrent use. Its clock stands still
// until [ManualTimer.AdvanceClock] moves it, tick by tick. Tasks that expire run on the
// goroutine that moves the clock, before AdvanceClock returns. If one calls runtime.Goexit,
// another goroutine goes on with the rest, and nobody waits for it.
type ManualTimer struct {
	store
	// mu is level 7 of the lock order, see docs/design.md: Extend, popLocked and the
	// statistics of keys call Now with a shard's lock held.
	mu struct {
		sched.Mutex
		now    time.Duration
		target time.Duration
		moving bool // a goroutine is inside AdvanceClock
	}
}

// NewManualTimer returns a timer whose clock stands at 0. [WithWorkers] and [WithLogger]
// have no effect on it.
//
// Error: [ErrInvalidOption].
func NewManualTimer(opts ...Option) (*ManualTimer, error) {
	t := &ManualTimer{}
	if err := t.init(1, opts, t); err != nil {
		return nil, err
	}
	return t, nil
}

// need does nothing: AdvanceClock reads every shard, and runs what is due.
func (t *ManualTimer) need(int64) {}

// Now returns how far AdvanceClock has moved the clock. Inside a task it is the first tick at
// or after the task's deadline, or the time at which the entry was added if the deadline had
// passed then.
func (t *ManualTimer) Now() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.now
}

// AdvanceClock moves the clock by d and reports whether any task ran. It stops at every tick
// at which an entry expires and runs the entry's task there. A negative d counts as 0;
// AdvanceClock(0) runs what is due already. If another AdvanceClock is in progress, as when a
// task calls AdvanceClock, it adds d to the distance of that one and returns false at once.
// The clock stops before [Never].
func (t *ManualTimer) AdvanceClock(d time.Duration) (ran bool) {
	return t.AdvanceClockUntil(nil, d)
}

// AdvanceClockUntil is [ManualTimer.AdvanceClock], unless stop is closed when it is called:
// then it returns false and does not move the clock. It does not read stop again.
func (t *ManualTimer) AdvanceClockUntil(stop <-chan struct{}, d time.Duration) (ran bool) {
	if sched.Closed(stop) {
		return false
	}
	t.mu.Lock()
	t.mu.target = min(Deadline(t.mu.target, d), lastTime)
	if t.mu.moving {
		t.mu.Unlock()
		return false
	}
	t.mu.moving = true
	t.mu.Unlock()

	return guard.Finish((*ManualTimer).move, t)
}

// lastTime is where the clock stops.
const lastTime = Never - 1

// move moves the clock to the target and reports whether any task ran.
func (t *ManualTimer) move() (ran bool) {
	for now, more := t.step(); more; now, more = t.step() {
		t.flush(now)
		for t.anyReady() {
			ran = t.runDue() || ran
		}
	}
	return ran
}

// step moves the clock to the next time at which a shard has to be flushed. It does not move
// the clock while entries are due. If nothing is to be done until the target, it
// moves the clock there, ends the move and returns false.
func (t *ManualTimer) step() (now time.Duration, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.anyReady() { // entries that were due when they were added
		return t.mu.now, true
	}
	if at := time.Duration(t.next()); at <= t.mu.target {
		t.mu.now = max(t.mu.now, at)
		return t.mu.now, true
	}
	t.mu.now = t.mu.target
	t.mu.moving = false
	return 0, false
}
