package timer

import (
	"math"
	"runtime"
	"time"
)

// rouse is called by an adder that finds the driver asleep though its time has come
// more than a tick ago. That happens while the garbage collector marks: its workers
// take the idle processors, and nobody looks at the runtime timer on which the driver
// sleeps, for up to 50 ms. The adder, who has just read the clock, wakes the driver and
// yields its own processor to it once.
func (t *SystemTimer) rouse() {
	t.overdue.Store(never) // one adder is enough
	t.wakeDriver()
	runtime.Gosched()
}

// wakeDriver cuts the driver's sleep short.
func (t *SystemTimer) wakeDriver() {
	select {
	case t.wakeup <- struct{}{}:
	default:
	}
}

// wakeBy sees to it that the driver is awake when tick comes.
func (t *SystemTimer) wakeBy(tick int64) {
	t.clock.Lock()
	earlier := tick < t.wake.Load()
	if earlier {
		t.wake.Store(tick)
	}
	t.clock.Unlock()
	if earlier {
		t.wakeDriver()
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
// drives while the others wait for their turn, up to their d. A task that calls it
// keeps its worker waiting.
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
		if !t.sleepUntil(until) {
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

// sleepUntil sleeps until a time on the timer's clock, or until woken; false if the
// timer has stopped.
func (t *SystemTimer) sleepUntil(until int64) bool {
	if until < math.MaxInt64-t.tick {
		t.overdue.Store(until + t.tick)
	}
	defer t.overdue.Store(never)
	return t.sleep(time.Duration(until) - t.now())
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
