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
	rounds := r.rounds(2)
	for round := range rounds {
		for _, p := range pendings {
			for _, peer := range timers.Peers() {
				if r.Quick && (!peer.Main || round > 0 && p > 0) {
					continue
				}
				r.turn(fmt.Sprintf("T1, T1w  round %d of %d  P=%d  %s", round+1, rounds, p, peer.Name), func() {
					addCancelOne(r, round, p, peer, "T1", requests)
				})
			}
		}
	}
}

func addCancelOne(r *Run, round, pending int, peer timers.Peer, workload string, of span) {
	t := peer.New()
	others := t.Slots(pending, nil)
	for i, d := range delays(0, pending, 60*time.Second, 120*time.Second) {
		others.Add(i, d)
	}
	rest(t)
	window := r.Window
	if pending >= Million {
		// Long enough for whole cycles of the collector, which has a million pending timers to mark each time: who
		// allocates pays for that in the long run, and a short window would hide it, or show nothing else.
		window *= 5
	}
	measure := func(workload string, loop func(timers.Timers, int, time.Duration, span) meter.Rate) {
		for _, g := range []int{1, 2} {
			r.addRate(workload, fmt.Sprintf("G=%d/P=%d", g, pending), peer.Name, round, loop(t, g, window, of))
		}
	}
	measure(workload, atOnce)
	if !r.Quick { // some search lists of a million, for ten seconds
		measure(workload+"w", windowed)
	}
	r.tidy(func() {
		for i := range pending {
			others.Cancel(i)
		}
		t.Close()
	})
}

const delayTable = 1 << 12 // delays are drawn before the clock starts

// span is where the delays of timers lie that are added and cancelled.
type span struct{ low, high time.Duration }

var requests = span{10 * time.Second, 60 * time.Second}

type addCancelWorker struct {
	slots  timers.Slots
	delays []time.Duration
	next   int
	_      [64]byte // two workers never share a line
}

// addCancelWorkers makes the workers' slots on goroutines of their own that run at the same time, as timers are made by
// those who use them: the allocator then gives them pages of their own.
func addCancelWorkers(t timers.Timers, g, slots int, of span) []*addCancelWorker {
	workers := make([]*addCancelWorker, g)
	var begun atomic.Int32
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			// Who would block here would leave its processor, and that one's pages, to the next.
			for begun.Add(1); int(begun.Load()) < g; {
			}
			workers[i] = &addCancelWorker{
				slots:  t.Slots(slots, nil),
				delays: delays(i+1, delayTable, of.low, of.high),
			}
		})
	}
	all.Wait()
	return workers
}

func atOnce(t timers.Timers, g int, long time.Duration, of span) meter.Rate {
	return meter.Loop(g, long, 500, atOnceLoop(t, g, of))
}

// atOnceLoop returns the body of the loop: n timers added and cancelled.
func atOnceLoop(t timers.Timers, g int, of span) func(worker, n int) {
	workers := addCancelWorkers(t, g, 1, of)
	return func(worker, n int) {
		w := workers[worker]
		for range n {
			w.next = (w.next + 1) % delayTable
			w.slots.Add(0, w.delays[w.next])
			w.slots.Cancel(0)
		}
	}
}

func windowed(t timers.Timers, g int, long time.Duration, of span) meter.Rate {
	const window = 10_000
	workers := addCancelWorkers(t, g, window, of)
	for _, w := range workers {
		for i := range window {
			w.slots.Add(i, w.delays[i%delayTable])
		}
	}
	rate := meter.Loop(g, long, 500, func(worker, n int) {
		w := workers[worker]
		for range n {
			w.next = (w.next + 1) % window
			w.slots.Cancel(w.next)
			w.slots.Add(w.next, w.delays[w.next%delayTable])
		}
	})
	for _, w := range workers {
		for i := range window {
			w.slots.Cancel(i)
		}
	}
	return rate
}
