package timer

import (
	"sync"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// Shared returns a timer that drives itself, and that is the same for the whole program: package queue uses it,
// and purgatories may (purgatory.WithTimer). It has default options; a timer of the runtime is set while there
// are entries. It needs no Start, and must not be stopped. In a bubble of testing/synctest each call returns a
// new one, which belongs to the bubble.
func Shared() *SystemTimer {
	if sched.InBubble() {
		return newSelfDriven()
	}
	return shared()
}

var shared = sync.OnceValue(newSelfDriven) // not explored: no scenario shares the timer of the process

// selfDriven is the clock of a SystemTimer that nobody needs to drive: an alarm goes off when the first shard
// is to be flushed. Others may drive the timer, too.
//
// While no run is under way, the alarm is set to no later time than the next of any shard:
//
//  1. A run first says that the alarm is not set, then takes the place of the driver, flushes, publishes wake
//     as any driver does, and sets the alarm to that.
//  2. A goroutine that adds an entry that is to be flushed before wake sets the alarm. Otherwise the alarm is
//     set to wake or earlier, or about to be: by 1, or by 3.
//  3. Another driver that raises wake has flushed what was due. The alarm is not later than its sleep, or a run
//     under way looks at every shard after that driver.
type selfDriven struct {
	*SystemTimer
	alarm sched.Alarm
	mu    struct {
		sched.Mutex       // lock level 8, see docs/internals/design.md
		at          int64 // the time to which the alarm is set, in ns; never if it is not
	}
}

func newSelfDriven() *SystemTimer {
	t, err := NewSystemTimer()
	if err != nil {
		panic(err) // there are no options that could be wrong
	}
	s := &selfDriven{SystemTimer: t}
	s.alarm = sched.NewAlarm(s.run)
	s.mu.at = never
	t.prepare(0) // it does not count among those of which a program needs few
	t.wake.Store(never)
	t.clock = s
	return t
}

func (s *selfDriven) need(at int64) {
	if s.SystemTimer.need(at); at > 0 {
		s.set(at)
	}
}

// set sets the alarm to at, unless it is set to that or to an earlier time.
func (s *selfDriven) set(at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at < s.mu.at {
		s.mu.at = at
		s.alarm.Set(s.base.Add(time.Duration(at)))
	}
}

// run is what the alarm does.
func (s *selfDriven) run() {
	s.mu.Lock()
	s.mu.at = never
	s.mu.Unlock()
	if sched.Sleep(Never, s.driver, nil, s.ended) != sched.Taken {
		return // it was stopped
	}
	s.overdue.Store(never)
	s.flush(s.Now())
	next := s.nextWake()
	s.overdue.Store(s.late(next))
	s.driver.Put()
	s.set(next)
}
