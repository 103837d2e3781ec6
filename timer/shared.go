package timer

import (
	"sync"

	"github.com/delayedop/purgatory/internal/sched"
)

// Shared returns a timer for the whole program, with default options: package queue uses it, and purgatories may
// (purgatory.WithTimer). It drives itself, with a timer of the runtime and no goroutine: AdvanceClock only
// waits. Do not stop it. In a bubble of testing/synctest each call returns a new one, which belongs to the
// bubble.
func Shared() *SystemTimer {
	if sched.InBubble() {
		return newSelfDriven()
	}
	return shared()
}

var shared = sync.OnceValue(newSelfDriven) // not explored: no scenario shares the timer of the process

func newSelfDriven() *SystemTimer {
	t, _ := NewSystemTimer() // no option could be wrong
	alarm := sched.NewAlarm(t.driveOnce)
	t.alarm = &alarm
	t.wake.Store(never)
	sched.Receive(t.driver) // nobody else gets it
	return t
}

// driveOnce is what the alarm does: it flushes, and sets the alarm to when it has to do so again. No entry is late, by the
// steps at wake: in 1, the alarm is set to go off at once; in 2, to wake, before every next is read again. Runs follow one
// another, so the alarm is never set to a later time than wake.
func (t *SystemTimer) driveOnce() {
	t.driving.Lock()
	defer t.driving.Unlock()
	t.overdue.Store(never)
	t.flush(t.read())
	t.overdue.Store(t.late(t.nextWake()))
}
