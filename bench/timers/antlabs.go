package timers

import (
	"sync"
	"time"

	"github.com/antlabs/timer"
)

// antlabs is the five-level wheel of github.com/antlabs/timer. Its tick is fixed at 10 ms.
type antlabs struct {
	wheel timer.Timer
	done  *sync.WaitGroup
}

func newAntlabs() Timers {
	p := antlabs{wheel: timer.NewTimer(timer.WithTimeWheel()), done: new(sync.WaitGroup)}
	p.done.Go(p.wheel.Run)
	return p
}

func (p antlabs) Slots(n int, fired func(i int)) Slots {
	return &antlabsSlots{wheel: p.wheel, timers: make([]timer.TimeNoder, n), callback: callbacks(fired)}
}

func (p antlabs) Hold(d time.Duration, payload *Payload) func() {
	t := p.wheel.AfterFunc(d, payload.touch)
	return func() { t.Stop() }
}

func (p antlabs) Close() {
	p.wheel.Stop()
	p.done.Wait()
}

type antlabsSlots struct {
	wheel    timer.Timer
	timers   []timer.TimeNoder
	callback func(i int) func()
}

func (s *antlabsSlots) Add(i int, d time.Duration) {
	s.timers[i] = s.wheel.AfterFunc(d, s.callback(i))
}
func (s *antlabsSlots) Cancel(i int) { s.timers[i].Stop() }
