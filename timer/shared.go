package timer

import (
	"sync"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// Shared returns a timer that drives itself, and that is the same for the whole program: package queue uses it, and
// purgatories may (purgatory.WithTimer), where a timer and a goroutine for each would weigh too much. It has default
// options and no goroutine of its own: a timer of the runtime is set while there are entries. It needs no Start, and must
// not be stopped.
//
// In a bubble of testing/synctest each call returns a new one, which belongs to the bubble: what is used in the bubble
// has to be made there.
func Shared() *SystemTimer {
	if sched.InBubble() {
		return newSelfDriven()
	}
	return shared()
}

var shared = sync.OnceValue(newSelfDriven)

// selfDriven is the clock of a SystemTimer that nobody needs to drive: an alarm goes off at the tick at which the first
// shard is to be flushed. Others may drive the timer as well, such as the reaper of a purgatory.
//
// While no run is under way, the alarm is set to no later tick than the next of any shard:
//
//  1. A run first says that the alarm is not set, then takes the place of the driver, flushes, reads every next and
//     publishes wake, as any driver does, and sets the alarm to that. So no two scan at a time.
//  2. A goroutine that adds an entry finds wake later than its tick, lowers wake and sets the alarm. If it finds wake
//     earlier or equal, the alarm is set to wake or earlier, or about to be: by 1, by another goroutine that adds, or by
//     3.
//  3. Another driver raises wake to the least next that it has read. The alarm is not later than that, or a run is under
//     way, which scans after that driver.
//  4. Nothing else lowers a next but what adds an entry.
type selfDriven struct {
	*SystemTimer
	alarm sched.Alarm
	mu    struct {
		sched.Mutex       // level 8 of the lock order, see docs/design.md
		at          int64 // the tick to which the alarm is set, never if it is not
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
	d := &driving{driver: sched.NewToken(), wakeup: sched.NewToken(), ended: make(chan struct{})}
	d.gone.Store(true) // it does not count among those of which a program needs few
	d.driver.Put()
	t.driving.Store(d)
	t.wake.Store(scanning)
	t.clock = s
	return t
}

func (s *selfDriven) need(tick int64) {
	if s.SystemTimer.need(tick); tick > 0 {
		s.set(tick)
	}
}

// set sets the alarm to tick, unless it is set to that or to an earlier one.
func (s *selfDriven) set(tick int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tick < s.mu.at {
		s.mu.at = tick
		s.alarm.Set(s.base.Add(time.Duration(s.timeOf(tick))))
	}
}

// run does what is to be done when the alarm has gone off.
func (s *selfDriven) run() {
	s.mu.Lock()
	s.mu.at = never
	s.mu.Unlock()
	d := s.driving.Load()
	if sched.Sleep(Never, d.driver, nil, d.ended) != sched.Taken {
		return // it was stopped
	}
	s.overdue.Store(never)
	s.flush(s.Now())
	next := s.nextWake()
	s.overdue.Store(s.late(s.timeOf(next)))
	d.driver.Put()
	s.set(next)
}
