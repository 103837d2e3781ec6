package timers

import (
	"time"

	timewheel "github.com/rfyiamcool/go-timewheel"
)

// rfyiamcool is a single wheel of maps under one lock. Its tick is set to 1 ms; 4096 buckets keep the entries that each
// tick walks (all of a bucket, whatever their round) at a few hundred with a million pending. Add and Remove are used, not
// its AfterFunc, which makes a context and a channel for every timer.
type rfyiamcool struct{ wheel *timewheel.TimeWheel }

func newRfyiamcool() Timers {
	w, err := timewheel.NewTimeWheel(time.Millisecond, 4096)
	if err != nil {
		panic(err)
	}
	w.Start()
	return rfyiamcool{wheel: w}
}

func (p rfyiamcool) Slots(n int, fired func(i int)) Slots {
	return &rfyiamcoolSlots{wheel: p.wheel, tasks: make([]*timewheel.Task, n), callback: callbacks(fired)}
}

func (p rfyiamcool) Hold(d time.Duration, payload *Payload) func() {
	t := p.wheel.Add(d, payload.touch)
	return func() { _ = p.wheel.Remove(t) }
}

func (p rfyiamcool) Close() { p.wheel.Stop() }

type rfyiamcoolSlots struct {
	wheel    *timewheel.TimeWheel
	tasks    []*timewheel.Task
	callback func(i int) func()
}

func (s *rfyiamcoolSlots) Add(i int, d time.Duration) {
	s.tasks[i] = s.wheel.Add(d, s.callback(i))
}
func (s *rfyiamcoolSlots) Cancel(i int) { _ = s.wheel.Remove(s.tasks[i]) }
