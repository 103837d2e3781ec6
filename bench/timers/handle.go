package timers

import (
	"time"

	"github.com/delayedop/purgatory/timer"
)

// handles is our timer as the standard library's is used: AfterFunc returns a handle, Stop stops it.
type handles struct{ timer *timer.SystemTimer }

func newHandle() Timers { return handles{timer: StartSystemTimer()} }

func (p handles) Slots(n int, fired func(i int)) Slots {
	return &handleSlots{timer: p.timer, handles: make([]*timer.Handle, n), callback: callbacks(fired)}
}

func (p handles) Hold(d time.Duration, payload *Payload) func() {
	h := p.after(d, payload.touch)
	return func() { h.Stop() }
}

func (p handles) after(d time.Duration, f func()) *timer.Handle {
	h, err := p.timer.AfterFunc(d, f)
	if err != nil {
		panic(err)
	}
	return h
}

func (p handles) Close()       { p.timer.Stop() }
func (p handles) AtRest() bool { return AtRest(p.timer) }

type handleSlots struct {
	timer    *timer.SystemTimer
	handles  []*timer.Handle
	callback func(i int) func()
}

func (s *handleSlots) Add(i int, d time.Duration) {
	s.handles[i] = handles{s.timer}.after(d, s.callback(i))
}
func (s *handleSlots) Cancel(i int) { s.handles[i].Stop() }
