package workload

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// pendingTimers measures T3, bytes per pending timer. What the caller keeps to be able to cancel (handle, key, the entry)
// counts.
func pendingTimers(r *Run) {
	r.each("T3", r.longRounds(), r.timers(), func(round int, peer string) {
		t := timers.New(peer)
		var slots timers.Slots
		m := footprint(r.Million, func() {
			slots = t.Slots(r.Million, nil)
			for i, d := range delays(0, r.Million, time.Minute, 2*time.Minute) {
				slots.Add(i, d)
			}
		})
		runtime.KeepAlive(slots)
		r.add("T3", fmt.Sprintf("N=%d", r.Million), peer, round, int64(r.Million), m)
	})
}

// pendingOperations measures P5, bytes per pending operation (stacks included), and P7, what a million pending cost while
// nothing happens.
func pendingOperations(r *Run) {
	for _, keys := range []int{1, 3} {
		peers := r.operations(purgatories.Ours, purgatories.CB, purgatories.Timers)
		r.each(fmt.Sprintf("P5  keys=%d", keys), r.longRounds(), peers, func(round int, peer string) {
			p := purgatories.New(peer)
			m := footprint(r.Million, func() { r.crowd(p, r.Million, keys) })
			runtime.KeepAlive(p)
			r.add("P5", fmt.Sprintf("keys=%d/N=%d", keys, r.Million), peer, round, int64(r.Million), m)
		})
	}
	r.each("P7", r.longRounds(), r.operations(purgatories.Ours), func(round int, peer string) {
		p := purgatories.New(peer)
		r.crowd(p, r.Million, 1)
		m := idle(10 * r.Window)
		runtime.KeepAlive(p)
		r.add("P7", fmt.Sprintf("N=%d", r.Million), peer, round, int64(r.Million), m)
	})
}

// footprint returns what n things that start makes hold and allocate, each. A growing million of stacks would be marked
// again and again, which takes longer than all the rest: meanwhile there are no collections.
func footprint(n int, start func()) map[string]float64 {
	before := meter.Live()
	s := meter.Start()
	collecting := debug.SetGCPercent(-1)
	start()
	debug.SetGCPercent(collecting)
	c := s.Stop()
	return map[string]float64{
		result.Bytes:    (float64(meter.Live()) - float64(before)) / float64(n),
		result.AllocsOp: float64(c.Mallocs) / float64(n),
	}
}

// crowd submits n long operations, each on some of a thousand keys.
func (r *Run) crowd(p purgatories.Purgatory, n, keys int) {
	sets := keySets(quietKeys, func(i int) []string {
		set := make([]string, keys)
		for j := range set {
			set[j] = fmt.Sprintf("crowd-%d", (i+j*331)%quietKeys)
		}
		return set
	})
	lane := purgatories.NewLane()
	lane.Expect(n)
	for i, d := range delays(2, n, 10*time.Minute, 20*time.Minute) {
		p.Submit(lane, d, sets[i%len(sets)])
	}
	p.Settle(lane)
	r.rest(p)
}

// idle returns the milliseconds of processor time that the process uses in a second in which the benchmark sleeps for so
// long, and what it allocates. What was done before has left something to the scavenger, which is given back first.
func idle(long time.Duration) map[string]float64 {
	debug.FreeOSMemory()
	time.Sleep(long / 2)
	s := meter.Start()
	time.Sleep(long)
	c := s.Stop()
	return map[string]float64{
		result.CPUIdle:   result.Milliseconds(c.CPU) / c.Wall.Seconds(),
		result.AllocsSec: float64(c.Mallocs) / c.Wall.Seconds(),
	}
}
