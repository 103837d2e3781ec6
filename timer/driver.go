package timer

import (
	"runtime"
	"sync"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// callStandIn is for a goroutine that adds an entry at now and has found the driver asleep since overdue
// (docs/internals/decisions.md#a-stand-in-for-the-clock). If a shard is to be flushed, a worker does so, once, and gets
// this processor. That only raises next: the driver wakes up too early.
func (t *store) callStandIn(overdue, now int64) {
	next := t.next()
	if t.overdue.CompareAndSwap(overdue, t.late(max(now, next))) && next <= now {
		t.called.Store(true)
		t.clock.need(0) // also if one was called before: the runtime may keep it from running, too
		runtime.Gosched()
	}
}

// late returns when a driver that was to wake up then is late: never if a stall has a grace.
func (t *store) late(at int64) int64 {
	if t.grace > 0 {
		return never
	}
	return int64(Deadline(time.Duration(at), max(time.Duration(t.tick/4), 250*time.Microsecond)))
}

func (t *SystemTimer) need(at int64) {
	switch {
	case at == 0:
		t.pool.Kick()
	case t.alarm != nil:
		t.alarm.Set(t.base) // at once
	default:
		t.wakeup.Put()
	}
}

// nextWake returns the time until which the driver sleeps, or to which it has set the alarm, and publishes it: see wake.
func (t *SystemTimer) nextWake() int64 {
	for {
		at := t.next()
		t.wake.Store(at)
		if t.alarm != nil && at < never {
			t.alarm.Set(t.base.Add(time.Duration(at)))
		}
		if t.next() >= at {
			return at
		}
	}
}

// advance implements clock. A reaper calls it in a loop, also when the timer was stopped.
func (t *SystemTimer) advance(stop <-chan struct{}, d time.Duration) bool {
	deadline := Deadline(t.Here(), d) // first: it may panic
	if t.stopped.Load() {
		if stop != nil {
			sched.Sleep(d, nil, stop, nil)
		}
		return false
	}
	if sched.Sleep(d, t.driver, stop, t.ended) != sched.Taken {
		return false
	}
	defer t.driver.Put()
	t.count()
	planned := Never // when this goroutine was to flush
	for !sched.Closed(stop) && !sched.Closed(t.ended) {
		now := t.clock.read()
		planned = min(planned, time.Duration(t.next()))
		for ; t.grace > 0 && now-planned > t.grace; now = t.clock.read() { // a stall, perhaps after another one
			planned = now + t.grace
			if t.sleeper.Sleep(t.grace, nil, stop, t.ended) == sched.Stopped {
				return false
			}
		}
		if due := t.flush(now); due || now >= deadline {
			return due
		}
		until := min(t.nextWake(), int64(deadline))
		t.overdue.Store(t.late(until))
		planned = time.Duration(until)
		t.sleeper.Sleep(time.Duration(until)-t.clock.read(), t.wakeup, stop, t.ended)
		t.overdue.Store(never)
	}
	return false
}

// Shared returns a timer for the whole program, with default options: package queue uses it, and purgatories may
// (purgatory.WithTimer). It drives itself, with a timer of the runtime and no goroutine: AdvanceClock only waits. Do
// not stop it. In a bubble of testing/synctest each call returns a new one.
func Shared() *SystemTimer {
	if sched.InBubble() {
		return newSelfDriven()
	}
	return shared()
}

var shared = sync.OnceValue(newSelfDriven) // not explored: no scenario shares the timer of the process

func newSelfDriven() *SystemTimer {
	t, _ := NewSystemTimer() // no option could be wrong
	t.alarm = sched.NewAlarm(t.driveOnce)
	t.wake.Store(never)
	sched.Receive(t.driver) // nobody else gets it
	return t
}

// driveOnce is what the alarm does: it flushes, and sets the alarm to when it has to again. No entry is late, by the
// steps at wake: in 1, the alarm is set to go off at once; in 2, to wake, before every next is read again. Runs follow
// one another, so it is never set to a later time than wake.
func (t *SystemTimer) driveOnce() {
	t.driving.Lock()
	defer t.driving.Unlock()
	t.overdue.Store(never)
	t.flush(t.read())
	t.overdue.Store(t.late(t.nextWake()))
}
