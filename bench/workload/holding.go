package workload

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
)

// pendingOperations measures P5, bytes per pending operation (stacks included), and P7, what a million pending cost while
// nothing happens.
func pendingOperations(r *Run) {
	for _, peer := range purgatories.Peers() {
		if peer.Name == purgatories.Chan && !r.Full || peer.Name == purgatories.Lazy {
			continue // in memory the lazy one is like the other while all are pending
		}
		for _, keys := range []int{1, 3} {
			if !r.Full && keys > 1 && peer.Name != purgatories.Ours {
				continue
			}
			r.turn(fmt.Sprintf("P5, P7  keys=%d  %s", keys, peer.Name), func() { pendingOne(r, keys, peer) })
		}
	}
	if r.Full {
		r.turn("P7  floor", func() {
			r.add("P7", fmt.Sprintf("N=%d", r.Million), "floor", 0, int64(r.Million), map[string]float64{result.CPUIdle: wakeUps(r)})
		})
	}
}

// wakeUps returns what idleCost is of a goroutine that does nothing but wake up as often as a reaper does.
func wakeUps(r *Run) float64 {
	var stopped atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stopped.Load() {
			time.Sleep(200 * time.Millisecond)
		}
	}()
	cost := idleCost(r)
	stopped.Store(true)
	<-ended
	return cost
}

func pendingOne(r *Run, keys int, peer purgatories.Peer) {
	n := r.Million
	sets := keySets(quietKeys, func(i int) []string {
		set := make([]string, keys)
		for j := range set {
			set[j] = fmt.Sprintf("key-%d", (i+j*331)%quietKeys)
		}
		return set
	})
	ds := delays(3, n, 60*time.Second, 120*time.Second)
	p := peer.New()
	lane := purgatories.NewLane()
	before := meter.LiveWithStacks()
	start := time.Now()
	// A growing million of stacks would be marked again and again, which takes longer than all the rest.
	collecting := debug.SetGCPercent(-1)
	for i, d := range ds {
		p.Submit(lane, d, sets[i%len(sets)])
	}
	for p.Pending() < n {
		time.Sleep(time.Millisecond)
	}
	// Whoever waits in a goroutine of its own needs a moment to get to its select.
	time.Sleep(100 * time.Millisecond)
	debug.SetGCPercent(collecting)
	after := meter.LiveWithStacks()
	r.add("P5", fmt.Sprintf("keys=%d/N=%d", keys, n), peer.Name, 0, int64(n),
		map[string]float64{result.Bytes: (float64(after) - float64(before)) / float64(n)})
	// None of them expires, the first after 60 s, while P7 is measured.
	if keys == 1 && (r.Full && peer.Name != purgatories.Chan || peer.Name == purgatories.Ours) && time.Since(start) < 45*time.Second {
		r.add("P7", fmt.Sprintf("N=%d", n), peer.Name, 0, int64(n),
			map[string]float64{result.CPUIdle: idleCost(r)})
	}
	runtime.KeepAlive(ds)
	r.tidy(p.Close)
}

// idleCost returns the milliseconds of processor time that the process uses per second while the benchmark sleeps: the
// median of some slices. What measurements before have left to the scavenger is given back first.
func idleCost(r *Run) float64 {
	slice := time.Second
	if r.Million < Million {
		slice = 10 * time.Millisecond
	}
	debug.FreeOSMemory()
	time.Sleep(slice)
	var costs []float64
	for range 3 {
		cpu, start := meter.CPU(), time.Now()
		time.Sleep(slice)
		costs = append(costs, float64(meter.CPU()-cpu)/float64(time.Millisecond)/time.Since(start).Seconds())
	}
	slices.Sort(costs)
	return costs[len(costs)/2]
}
