package timers

import (
	"sync/atomic"
	"time"

	"github.com/ouqiang/timewheel"
)

// ouqiang is a single wheel owned by one goroutine, reached over channels. It counts whole seconds only: a shorter tick
// divides by zero, and a delay is cut to the second below, so it fires up to a second early.
type ouqiang struct {
	wheel *timewheel.TimeWheel
	keys  atomic.Int64
}

func newOuqiang() Timers {
	w := timewheel.New(time.Second, 3600, func(data any) { data.(func())() })
	w.Start()
	return &ouqiang{wheel: w}
}

func (p *ouqiang) Slots(n int, fired func(i int)) Slots {
	last := p.keys.Add(int64(n))
	return &ouqiangSlots{wheel: p.wheel, first: last - int64(n), callback: callbacks(fired)}
}

func (p *ouqiang) Hold(d time.Duration, payload *Payload) func() {
	key := p.keys.Add(1) - 1
	p.wheel.AddTimer(d, key, payload.touch)
	return func() { p.wheel.RemoveTimer(key) }
}

func (p *ouqiang) Close() { p.wheel.Stop() }

type ouqiangSlots struct {
	wheel    *timewheel.TimeWheel
	first    int64 // key of slot 0
	callback func(i int) func()
}

func (s *ouqiangSlots) Add(i int, d time.Duration) {
	s.wheel.AddTimer(d, s.first+int64(i), s.callback(i))
}
func (s *ouqiangSlots) Cancel(i int) { s.wheel.RemoveTimer(s.first + int64(i)) }
