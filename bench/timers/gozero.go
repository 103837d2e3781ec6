package timers

import (
	"sync/atomic"
	"time"

	"github.com/zeromicro/go-zero/core/collection"
)

// goZero is the wheel of go-zero's core/collection: one goroutine owns it, channels lead to it, a removed entry stays in
// its slot until the slot's turn. 1 ms and 4096 slots, for the reason given at rfyiamcool.
type goZero struct {
	wheel *collection.TimingWheel
	keys  atomic.Int64
}

func newGoZero() Timers {
	w, err := collection.NewTimingWheel(time.Millisecond, 4096, func(_, value any) { value.(func())() })
	if err != nil {
		panic(err)
	}
	return &goZero{wheel: w}
}

func (p *goZero) Slots(n int, fired func(i int)) Slots {
	last := p.keys.Add(int64(n))
	return &goZeroSlots{wheel: p.wheel, first: last - int64(n), callback: callbacks(fired)}
}

func (p *goZero) Hold(d time.Duration, payload *Payload) func() {
	key := p.keys.Add(1) - 1
	_ = p.wheel.SetTimer(key, payload.touch, d)
	return func() { _ = p.wheel.RemoveTimer(key) }
}

func (p *goZero) Close() { p.wheel.Stop() }

type goZeroSlots struct {
	wheel    *collection.TimingWheel
	first    int64 // key of slot 0
	callback func(i int) func()
}

func (s *goZeroSlots) Add(i int, d time.Duration) {
	_ = s.wheel.SetTimer(s.first+int64(i), s.callback(i), d)
}
func (s *goZeroSlots) Cancel(i int) { _ = s.wheel.RemoveTimer(s.first + int64(i)) }
