package timers

import "time"

// std is the standard library's time.AfterFunc and Stop.
type std struct{}

func newStd() Timers { return std{} }

func (std) Slots(n int, fired func(i int)) Slots {
	return &stdSlots{timers: make([]*time.Timer, n), callback: callbacks(fired)}
}

func (std) Hold(d time.Duration, payload *Payload) func() {
	t := time.AfterFunc(d, payload.touch)
	return func() { t.Stop() }
}

func (std) Close() {}

type stdSlots struct {
	timers   []*time.Timer
	callback func(i int) func()
}

func (s *stdSlots) Add(i int, d time.Duration) { s.timers[i] = time.AfterFunc(d, s.callback(i)) }
func (s *stdSlots) Cancel(i int)               { s.timers[i].Stop() }
