package purgatory

import (
	"sync"
	"testing"

	"github.com/delayedop/purgatory/internal/workers"
)

// HeldWorkers are the signal workers of a purgatory, which do nothing until Release is called. A
// test does their work when it wants it done.
type HeldWorkers struct {
	Asked   func() int  // how many workers have been started
	Waiting func() bool // whether there is work
	Step    func() bool // does one piece of work, and reports whether there was any
	Release func()      // lets the workers do what is left
}

// HoldWorkers holds the workers of p until Release, or the end of the test. Call it before p is used.
func HoldWorkers[K comparable](t testing.TB, p *DelayedOperationPurgatory[K]) *HeldWorkers {
	released := make(chan struct{})
	work := func() bool {
		<-released
		return p.crew.work()
	}
	p.crew.pool = workers.New(p.cfg.signalWorkers, work, p.crew.waiting)
	h := &HeldWorkers{p.crew.pool.Running, p.crew.waiting, p.crew.work, sync.OnceFunc(func() { close(released) })}
	t.Cleanup(h.Release)
	return h
}

// Work does what there is to do on the caller's goroutine.
func (h *HeldWorkers) Work() {
	for h.Step() {
	}
}
