package workload

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/timers"
)

// addCancel measures T1 and T1w: a timer added and cancelled at once, and a timer added while the one added 10,000 adds
// ago is cancelled, with P others pending.
func addCancel(r *Run) {
	pendings := []int{0, r.Million / 10, r.Million}
	if r.Quick {
		pendings = []int{0, r.Million}
	}
	for _, p := range pendings {
		r.each(fmt.Sprintf("T1, T1w  P=%d", p), r.longRounds(), r.timers(), func(round int, peer string) {
			addCancelOne(r, round, p, peer, timers.New(peer))
		})
	}
}

func addCancelOne(r *Run, round, pending int, peer string, t timers.Timers) {
	others := t.Slots(pending, nil)
	for i, d := range delays(0, pending, 60*time.Second, 120*time.Second) {
		others.Add(i, d)
	}
	r.rest(t)
	window := r.Window
	if pending >= Million {
		// Long enough for whole cycles of the collector, which has a million pending timers to mark each time: who
		// allocates pays for that in the long run, and a short window would hide it, or show nothing else.
		window *= 5
	}
	measure := func(workload string, ago int) {
		for _, g := range []int{1, 2} {
			l := newAddCancelLoop(t, g, ago, requests)
			r.addRate(workload, fmt.Sprintf("G=%d/P=%d", g, pending), peer, round, meter.Loop(g, window, 500, l.run))
			l.cancel()
		}
	}
	measure("T1", 1)
	if !r.Quick { // some search lists of a million, for ten seconds
		measure("T1w", 10_000)
	}
}

const delayTable = 1 << 12 // delays are drawn before the clock starts

// span is where the delays of timers lie that are added and cancelled.
type span struct{ low, high time.Duration }

var requests = span{10 * time.Second, 60 * time.Second}

// addCancelLoop adds timers and cancels each when so many have been added, itself included.
type addCancelLoop struct {
	ago     int
	workers []*addCancelWorker
}

type addCancelWorker struct {
	slots  timers.Slots // a ring; the one to be added next is free
	delays []time.Duration
	next   int
	added  int
	_      [64]byte // two workers never share a line
}

// newAddCancelLoop makes the workers' slots on goroutines of their own that run at the same time, as timers are made by
// those who use them: the allocator then gives them pages of their own.
func newAddCancelLoop(t timers.Timers, g, ago int, of span) *addCancelLoop {
	l := &addCancelLoop{ago: ago, workers: make([]*addCancelWorker, g)}
	var begun atomic.Int32
	var all sync.WaitGroup
	for i := range l.workers {
		all.Go(func() {
			// Who would block here would leave its processor, and that one's pages, to the next.
			for begun.Add(1); int(begun.Load()) < g; {
			}
			w := &addCancelWorker{slots: t.Slots(ago, nil), delays: delays(i+1, delayTable, of.low, of.high)}
			for pending := 1; pending < ago; pending++ {
				w.slots.Add(pending, w.delays[pending%delayTable])
			}
			l.workers[i] = w
		})
	}
	all.Wait()
	return l
}

// run is the body of the loop: n timers added, and as many cancelled.
func (l *addCancelLoop) run(worker, n int) {
	w := l.workers[worker]
	for range n {
		w.slots.Add(w.next, w.delays[w.added%delayTable])
		w.added++
		if w.next++; w.next == l.ago {
			w.next = 0
		}
		w.slots.Cancel(w.next)
	}
}

// cancel cancels what is pending. The loop is not run again.
func (l *addCancelLoop) cancel() {
	for _, w := range l.workers {
		for i := range l.ago {
			w.slots.Cancel(i)
		}
	}
}
