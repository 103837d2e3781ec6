package timer

import (
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// ManualTimer is a timer for tests: its clock stands still until AdvanceClock
// moves it, and what expires runs on the goroutine that moves it, tick by tick,
// before AdvanceClock returns. It is safe for concurrent use.
type ManualTimer struct {
	store
	mu struct {
		sched.Mutex
		now    time.Duration
		target time.Duration
		moving bool // somebody is inside AdvanceClock
	}
}

// NewManualTimer returns a timer whose clock stands at 0. Options that concern
// workers have no meaning for it. Error: ErrInvalidOption.
func NewManualTimer(opts ...Option) (*ManualTimer, error) {
	cfg, err := newConfig(1, opts)
	if err != nil {
		return nil, err
	}
	t := &ManualTimer{}
	t.init(cfg)
	t.now = t.Now
	t.needed = func(int64) {}
	t.dueNow = func() {}
	return t, nil
}

// Now returns how far AdvanceClock has moved the clock. Inside a task it is the
// start of the tick in which the task expired, or the time at which it was added
// if it was due already.
func (t *ManualTimer) Now() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.now
}

// AdvanceClock moves the clock by d (a negative d counts as 0), stops at every
// tick in which something expires, runs it there, and reports whether anything
// ran. AdvanceClock(0) runs what is due already. Called while another
// AdvanceClock is under way, from a task for instance, it adds d to that one's
// way, and returns false at once.
func (t *ManualTimer) AdvanceClock(d time.Duration) (ran bool) {
	t.mu.Lock()
	t.mu.target = min(t.mu.target, Never-max(d, 0)) + max(d, 0) // saturates at Never
	if t.mu.moving {
		t.mu.Unlock()
		return false
	}
	t.mu.moving = true
	t.mu.Unlock()

	stepped := false
	defer func() {
		if !stepped { // a task called runtime.Goexit
			t.mu.Lock()
			t.mu.moving = false
			t.mu.Unlock()
		}
	}()
	for {
		now, more := t.step()
		if !more {
			break
		}
		t.flush(now)
		for found := true; found; {
			var some bool
			found, some = t.runDue(t.dueNow)
			ran = ran || some
		}
	}
	stepped = true
	return ran
}

// step moves the clock to the next tick at which a bucket expires, or to the
// target if none expires before. It reports false, and ends the move, when there
// is nothing left to do.
func (t *ManualTimer) step() (now time.Duration, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting() { // added when it was due already
		return t.mu.now, true
	}
	if tick := t.next(); tick <= int64(t.mu.target)/t.tick {
		t.mu.now = max(t.mu.now, time.Duration(tick*t.tick))
		return t.mu.now, true
	}
	if t.mu.now < t.mu.target {
		t.mu.now = t.mu.target
		return t.mu.now, true
	}
	t.mu.moving = false
	return t.mu.now, false
}

// Stop refuses further entries and returns the tasks that had not fired.
func (t *ManualTimer) Stop() (unfired []Task) { return t.stop() }
