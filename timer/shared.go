package timer

import (
	"sync"
	"time"

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

// selfDriven is a SystemTimer that nobody drives: nobody else gets the place of its driver. An
// alarm goes off at wake, when the first shard is to be flushed. No entry is late:
//
//  1. A run of the alarm sets wake to never, flushes, looks at the next of every shard, and sets the alarm to
//     the earliest.
//  2. A goroutine that adds an entry lowers its shard's next, and then reads wake. If its own time is earlier,
//     it sets the alarm. Otherwise the alarm is set to wake, or about to be; or, if it has read a wake from
//     before 1, that run finds its next.
//  3. Nobody sets the alarm to a later time than wake. So several runs at once do no harm.
type selfDriven struct {
	*SystemTimer
	alarm sched.Alarm
	mu    sched.Mutex // orders those who lower wake and set the alarm; lock level 8, see docs/internals/design.md
}

func newSelfDriven() *SystemTimer {
	t, _ := NewSystemTimer() // no option could be wrong
	s := &selfDriven{SystemTimer: t}
	s.alarm = sched.NewAlarm(s.run)
	sched.Receive(t.driver)
	t.wake.Store(never)
	t.alarm = s
	return t
}

func (s *selfDriven) set(at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at < s.wake.Load() {
		s.wake.Store(at)
		s.overdue.Store(s.late(at))
		s.alarm.Set(s.base.Add(time.Duration(at)))
	}
}

// run is what the alarm does.
func (s *selfDriven) run() {
	s.overdue.Store(never)
	s.wake.Store(never)
	s.flush(s.Now())
	s.set(s.next())
}
