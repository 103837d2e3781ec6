package timers

import (
	"time"

	"github.com/RussellLuo/timingwheel"

	"github.com/delayedop/purgatory/timer"
)

// byHandle is a timer that is used as time.AfterFunc is: starting one returns what stops it.
type byHandle[H any] struct {
	after  func(d time.Duration, f func()) H
	stop   func(H)
	atRest func() bool // nil: always
}

func (p byHandle[H]) Slots(n int, fired func(i int)) Slots {
	return &handleSlots[H]{of: p, handles: make([]H, n), callback: callbacks(fired)}
}

func (p byHandle[H]) AtRest() bool { return p.atRest == nil || p.atRest() }

type handleSlots[H any] struct {
	of       byHandle[H]
	handles  []H
	callback func(i int) func()
}

func (s *handleSlots[H]) Add(i int, d time.Duration) { s.handles[i] = s.of.after(d, s.callback(i)) }
func (s *handleSlots[H]) Cancel(i int)               { s.of.stop(s.handles[i]) }

// newStd is the standard library's time.AfterFunc and Stop.
func newStd() Timers {
	return byHandle[*time.Timer]{after: time.AfterFunc, stop: func(t *time.Timer) { t.Stop() }}
}

func newHandle() Timers {
	t := StartSystemTimer()
	return byHandle[*timer.Handle]{
		after: func(d time.Duration, f func()) *timer.Handle {
			h, err := t.AfterFunc(d, f)
			if err != nil {
				panic(err)
			}
			return h
		},
		stop:   func(h *timer.Handle) { h.Stop() },
		atRest: new(Rest).AtRest,
	}
}

// newRussellLuo is the hierarchical wheel modelled on Kafka's: tick 1 ms, size 20 as in its README, and a delay queue.
func newRussellLuo() Timers {
	w := timingwheel.NewTimingWheel(time.Millisecond, 20)
	w.Start()
	return byHandle[*timingwheel.Timer]{after: w.AfterFunc, stop: func(t *timingwheel.Timer) { t.Stop() }}
}
