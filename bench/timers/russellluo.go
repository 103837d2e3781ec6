package timers

import (
	"time"

	"github.com/RussellLuo/timingwheel"
)

// russellLuo is the hierarchical wheel modelled on Kafka's: tick 1 ms, size 20 as in its README, and a delay queue.
type russellLuo struct{ wheel *timingwheel.TimingWheel }

func newRussellLuo() Timers {
	w := timingwheel.NewTimingWheel(time.Millisecond, 20)
	w.Start()
	return russellLuo{wheel: w}
}

func (p russellLuo) Slots(n int, fired func(i int)) Slots {
	return &russellLuoSlots{wheel: p.wheel, timers: make([]*timingwheel.Timer, n), callback: callbacks(fired)}
}

func (p russellLuo) Hold(d time.Duration, payload *Payload) func() {
	t := p.wheel.AfterFunc(d, payload.touch)
	return func() { t.Stop() }
}

func (p russellLuo) Close() { p.wheel.Stop() }

type russellLuoSlots struct {
	wheel    *timingwheel.TimingWheel
	timers   []*timingwheel.Timer
	callback func(i int) func()
}

func (s *russellLuoSlots) Add(i int, d time.Duration) {
	s.timers[i] = s.wheel.AfterFunc(d, s.callback(i))
}
func (s *russellLuoSlots) Cancel(i int) { s.timers[i].Stop() }
