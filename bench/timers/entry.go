package timers

import (
	"time"

	"github.com/delayedop/purgatory/timer"
)

// entries is our timer with entries that the caller owns: nothing is allocated per timer.
type entries struct{ timer *timer.SystemTimer }

// NewEntry is the caller's entry on a timer with options.
func NewEntry(opts ...timer.Option) Timers { return entries{timer: StartSystemTimer(opts...)} }

// StartSystemTimer returns a running timer.
func StartSystemTimer(opts ...timer.Option) *timer.SystemTimer {
	t, err := timer.NewSystemTimer(opts...)
	if err != nil {
		panic(err)
	}
	t.Start()
	return t
}

func (p entries) Slots(n int, fired func(i int)) Slots {
	if fired == nil {
		s := &bareEntries{timer: p.timer, entries: make([]timer.TaskEntry, n)}
		for i := range s.entries {
			s.entries[i].Bind(noTask{})
		}
		return s
	}
	s := &firingEntries{timer: p.timer, slots: make([]firingEntry, n), fired: fired}
	for i := range s.slots {
		s.slots[i].of, s.slots[i].index = s, i
		s.slots[i].entry.Bind(&s.slots[i])
	}
	return s
}

func (p entries) Close()       { p.timer.Stop() }
func (p entries) AtRest() bool { return AtRest(p.timer) }

// AtRest reports whether t has placed everything that it puts off.
func AtRest(t *timer.SystemTimer) bool { return timer.Inspect(t).Young.Entries == 0 }

func start(t *timer.SystemTimer, e *timer.TaskEntry, d time.Duration) {
	now := t.Now()
	if err := t.AddAt(e, now, timer.Deadline(now, d)); err != nil {
		panic(err)
	}
}

type noTask struct{}

func (noTask) RunTask(*timer.TaskEntry) {}

type bareEntries struct {
	timer   *timer.SystemTimer
	entries []timer.TaskEntry
}

func (s *bareEntries) Add(i int, d time.Duration) { start(s.timer, &s.entries[i], d) }
func (s *bareEntries) Cancel(i int)               { s.timer.Cancel(&s.entries[i]) }

type firingEntries struct {
	timer *timer.SystemTimer
	slots []firingEntry
	fired func(i int)
}

type firingEntry struct {
	entry timer.TaskEntry
	of    *firingEntries
	index int
}

func (f *firingEntry) RunTask(*timer.TaskEntry) { f.of.fired(f.index) }

func (s *firingEntries) Add(i int, d time.Duration) {
	start(s.timer, &s.slots[i].entry, d)
}
func (s *firingEntries) Cancel(i int) { s.timer.Cancel(&s.slots[i].entry) }
