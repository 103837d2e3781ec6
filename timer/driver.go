package timer

import (
	"runtime"
	"time"

	"github.com/delayedop/purgatory/internal/guard"
)

// callStandIn is called by an adder that finds the driver asleep though its time has
// come a while ago. That happens while the garbage collector marks: its workers take the
// idle processors, and nobody looks at the runtime timer on which the driver sleeps, for
// up to 50 ms. To wake the driver is not enough, for the processor on which it is then
// ready may go and mark before it runs anything. So the adder, who has just read the
// clock, has another goroutine do what is overdue, and yields its own processor once; and
// if that has not helped soon, the next adder calls another one.
//
// overdue is what the adder has read. Whoever compares it away is the one adder; the
// driver has not woken up meanwhile, for then there would be never.
func (t *SystemTimer) callStandIn(overdue int64) {
	soon := t.late(int64(t.now()))
	if !t.overdue.CompareAndSwap(overdue, soon) {
		return
	}
	t.standIns.Add(1)
	go t.standIn(soon)
	runtime.Gosched()
}

// standIn does once what the driver would do. called is the overdue that it was called
// with.
//
// The driver is as safe beside it as alone (see wake). (1) One of them flushes at a time.
// (2) A flush raises a shard's next only, under its lock, to where that wheel's first
// bucket expires, or its young are to be placed. (3) So a driver that has read next before
// computes a wake-up that is too early at most.
func (t *SystemTimer) standIn(called int64) {
	defer t.standIns.Add(-1)
	if !t.flushing.TryLock() {
		return
	}
	defer t.flushing.Unlock()
	guard.Call(func() { t.flush(t.now()) }, t.panicked)
	next := int64(never)
	if tick := t.next(); tick < never/t.tick {
		next = t.late(tick * t.tick)
	}
	t.overdue.CompareAndSwap(called, next) // if the driver sleeps on
}

// late returns the time from which on a driver that was to wake up at this time is late
// by so much that others do its work.
func (t *SystemTimer) late(at int64) int64 {
	patience := max(t.tick/4, int64(250*time.Microsecond)) // it takes the runtime 50 µs or so
	if at > never-patience {
		return never
	}
	return at + patience
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
		if t.flushAlone(now) {
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

// flushAlone is flush, by one goroutine at a time.
func (t *SystemTimer) flushAlone(now time.Duration) (due bool) {
	t.flushing.Lock()
	defer t.flushing.Unlock() // deferred: an executor may end the goroutine
	return t.flush(now)
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
	t.overdue.Store(t.late(until))
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
