package timers

import (
	"sync/atomic"
	"time"

	"github.com/RussellLuo/timingwheel"
	"github.com/zeromicro/go-zero/core/collection"

	"github.com/delayedop/purgatory/timer"
)

// byHandle is a timer that is used as time.AfterFunc is: starting one returns what stops it.
type byHandle[H any] struct {
	after  func(d time.Duration, f func()) H
	stop   func(H)
	close  func()
	atRest func() bool // nil: always
}

func (p byHandle[H]) Slots(n int, fired func(i int)) Slots {
	return &handleSlots[H]{of: p, handles: make([]H, n), callback: callbacks(fired)}
}

func (p byHandle[H]) Close()       { p.close() }
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
	return byHandle[*time.Timer]{after: time.AfterFunc, stop: func(t *time.Timer) { t.Stop() }, close: nothing}
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
		close:  func() { t.Stop() },
		atRest: func() bool { return AtRest(t) },
	}
}

func newHeap() Timers {
	h := startHeap()
	return byHandle[*item]{after: h.add, stop: h.cancel, close: h.close}
}

// newRussellLuo is the hierarchical wheel modelled on Kafka's: tick 1 ms, size 20 as in its README, and a delay queue.
func newRussellLuo() Timers {
	w := timingwheel.NewTimingWheel(time.Millisecond, 20)
	w.Start()
	return byHandle[*timingwheel.Timer]{after: w.AfterFunc, stop: func(t *timingwheel.Timer) { t.Stop() }, close: w.Stop}
}

// newGoZero is the wheel of go-zero's core/collection: one goroutine owns it, channels lead to it, a removed entry stays in
// its slot until the slot's turn. With a tick of 1 ms, 4096 slots keep the entries that each tick walks, all of a slot
// whatever their round, at a few hundred with a million pending.
func newGoZero() Timers {
	w, err := collection.NewTimingWheel(time.Millisecond, 4096, func(_, value any) { value.(func())() })
	if err != nil {
		panic(err)
	}
	var keys atomic.Int64
	return byHandle[int64]{
		after: func(d time.Duration, f func()) int64 {
			key := keys.Add(1)
			_ = w.SetTimer(key, f, d)
			return key
		},
		stop:  func(key int64) { _ = w.RemoveTimer(key) },
		close: w.Stop,
	}
}
