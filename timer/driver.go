package timer

import (
	"time"
)

// wakeBy sees to it that the driver is awake when tick comes.
func (t *SystemTimer) wakeBy(tick int64) {
	t.clock.Lock()
	earlier := tick < t.wake.Load()
	if earlier {
		t.wake.Store(tick)
	}
	t.clock.Unlock()
	if earlier {
		select {
		case t.wakeup <- struct{}{}:
		default:
		}
	}
}

// nextWake computes the tick to sleep on and publishes it, under one lock.
func (t *SystemTimer) nextWake() int64 {
	t.clock.Lock()
	defer t.clock.Unlock()
	t.wake.Store(scanning)
	tick := min(t.next(), t.retry.Load())
	t.wake.Store(tick)
	return tick
}

// AdvanceClock waits until something comes due, hands it to the workers, and
// returns true; or returns false when d has passed, or when the timer stops.
// d may be 0: hand over what is due and do not wait. Of several callers one
// drives while the others wait for their turn, up to their d.
func (t *SystemTimer) AdvanceClock(d time.Duration) bool {
	deadline := Deadline(t.now(), d)
	if !t.takeWheel(d) {
		return false
	}
	defer func() { <-t.driver }()
	for {
		now := t.now()
		t.offerAgain(now)
		if t.flush(now) {
			return true
		}
		if now >= deadline {
			return false
		}
		until := int64(deadline)
		if tick := t.nextWake(); tick <= until/t.tick {
			until = tick * t.tick
		}
		if !t.sleep(time.Duration(until) - t.now()) {
			return false
		}
	}
}

// takeWheel makes the caller the driver, if it can be within d.
func (t *SystemTimer) takeWheel(d time.Duration) bool {
	select {
	case t.driver <- struct{}{}:
		return true
	default:
	}
	patience := time.NewTimer(d)
	defer patience.Stop()
	select {
	case t.driver <- struct{}{}:
		return true
	case <-patience.C:
		return false
	case <-t.stopped:
		return false
	}
}

// sleep returns after d, or when woken; false if the timer has stopped.
func (t *SystemTimer) sleep(d time.Duration) bool {
	if d > 0 {
		t.sleeper.Reset(d)
		select {
		case <-t.sleeper.C:
		case <-t.wakeup:
		case <-t.stopped:
			return false
		}
		return true
	}
	select {
	case <-t.stopped:
		return false
	default:
		return true
	}
}
