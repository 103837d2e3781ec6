package workload

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// expiry measures T2: N timers with delays of 2..3 s, every callback recording its lateness against its exact deadline.
func expiry(r *Run) {
	for round := range r.longRounds() {
		for _, n := range []int{r.Million / 10, r.Million} {
			for _, g := range []int{1, 2} {
				for _, peer := range timers.Peers() {
					if !worthThreeSeconds(r, n, g, peer) {
						continue
					}
					r.turn(fmt.Sprintf("T2  round %d  N=%d G=%d  %s", round+1, n, g, peer.Name), func() {
						expiryOne(r, round, n, g, peer, "T2")
					})
				}
			}
		}
	}
}

// worthThreeSeconds leaves out what takes over three seconds each and no target refers to: two goroutines that add, the
// wheels that are not ours, and the heap with fewer than a million.
func worthThreeSeconds(r *Run, n, g int, peer timers.Peer) bool {
	switch {
	case r.Scope == Complete:
		return true
	case g > 1:
		return false
	case r.Scope == Essentials:
		return n < r.Million && (peer.Name == timers.Std || peer.Name == timers.Entry)
	default:
		return peer.Main && (n == r.Million || peer.Name != timers.Heap)
	}
}

func expiryOne(r *Run, round, n, g int, peer timers.Peer, workload string) {
	params := fmt.Sprintf("G=%d/N=%d", g, n)
	low, high := 2*time.Second, 3*time.Second
	ds := delays(round, n, low, high)
	late := meter.NewLateness(n)
	t := peer.New()
	defer r.tidy(t.Close)
	slots := make([]timers.Slots, g)
	for w := range slots {
		from, to := w*n/g, (w+1)*n/g
		slots[w] = t.Slots(to-from, func(i int) { late.Met(from + i) })
	}
	meter.PrefaultForGrowth()
	idle := runtime.NumGoroutine()
	peak := meter.WatchGoroutines()
	s, start := meter.Start(), time.Now()
	together(g, n, func(w, from, to int) {
		for i := from; i < to; i++ {
			late.Due(i, ds[i])
			slots[w].Add(i-from, ds[i])
		}
	})
	added := time.Since(start)
	missing := await(late, 30*time.Second)
	c := s.Stop()
	m := map[string]float64{
		result.CPUSec:   c.CPU.Seconds(),
		result.AllocsOp: float64(c.Mallocs) / float64(n),
		result.Routines: float64(peak.Stop() - idle),
		"add-s":         added.Seconds(),
	}
	r.lost(peer.Name, missing, m)
	r.lateMetrics(workload, params, peer.Name, late.Sorted(), m)
	r.add(workload, params, peer.Name, round, int64(n), m)
}

// together has g goroutines do parts of n, from..to each, and waits for them.
func together(g, n int, part func(worker, from, to int)) {
	var all sync.WaitGroup
	for w := range g {
		all.Go(func() { part(w, w*n/g, (w+1)*n/g) })
	}
	all.Wait()
}

// await waits until every deadline is met, or for so long, and returns how many are not.
func await(late *meter.Lateness, limit time.Duration) int {
	select {
	case <-late.Done:
		return 0
	case <-time.After(limit):
		return late.Left()
	}
}
