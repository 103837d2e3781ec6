package timers

import (
	"time"

	"github.com/delayedop/purgatory/timer"
)

// entries is our timer with entries that the caller owns: nothing is allocated per timer.
type entries struct {
	timer *timer.SystemTimer
	*Rest
}

// NewEntry is the caller's entry on a timer with options.
func NewEntry(opts ...timer.Option) Timers {
	return entries{timer: StartSystemTimer(opts...), Rest: new(Rest)}
}

// StartSystemTimer returns a running timer.
func StartSystemTimer(opts ...timer.Option) *timer.SystemTimer {
	t, err := timer.NewSystemTimer(opts...)
	if err != nil {
		panic(err)
	}
	t.Start()
	return t
}

// task is what an entry is bound to. The conversion to an interface allocates nothing.
type task func()

func (t task) RunTask(*timer.TaskEntry) { t() }

func (p entries) Slots(n int, fired func(i int)) Slots {
	s := &entrySlots{timer: p.timer, entries: make([]timer.TaskEntry, n)}
	callback := callbacks(fired)
	for i := range s.entries {
		s.entries[i].Bind(task(callback(i)))
	}
	return s
}

type entrySlots struct {
	timer   *timer.SystemTimer
	entries []timer.TaskEntry
}

func (s *entrySlots) Add(i int, d time.Duration) {
	now := s.timer.Now()
	if err := s.timer.AddAt(&s.entries[i], now, timer.Deadline(now, d)); err != nil {
		panic(err)
	}
}

func (s *entrySlots) Cancel(i int) { s.timer.Cancel(&s.entries[i]) }
