package workload

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
)

// pendingOperations measures P5, bytes per pending operation (stacks included), and P7, what a million pending cost while
// nothing happens.
func pendingOperations(r *Run) {
	quick := map[int][]string{1: {purgatories.Ours, purgatories.CB, purgatories.Timers}, 3: {purgatories.Ours}}
	for round := range r.longRounds() {
		for _, keys := range []int{1, 3} {
			for _, name := range r.among(quick[keys]...) {
				r.turn(fmt.Sprintf("P5  round %d  keys=%d  %s", round+1, keys, name), func() { pendingBytes(r, round, keys, name) })
			}
		}
		for _, name := range r.among(purgatories.Ours) {
			r.turn(fmt.Sprintf("P7  round %d  %s", round+1, name), func() { idleOne(r, round, name) })
		}
	}
}

// hold submits n operations with 60..120 s on some of a thousand keys.
func hold(p purgatories.Purgatory, n, keys int) {
	sets := keySets(quietKeys, func(i int) []string {
		set := make([]string, keys)
		for j := range set {
			set[j] = fmt.Sprintf("key-%d", (i+j*331)%quietKeys)
		}
		return set
	})
	ds := delays(3, n, 60*time.Second, 120*time.Second)
	lane := purgatories.NewLane()
	lane.Expect(n)
	for i, d := range ds {
		p.Submit(lane, d, sets[i%len(sets)])
	}
	p.Settle(lane)
}

func pendingBytes(r *Run, round, keys int, name string) {
	n := r.Million
	p := purgatories.ByName(name).New()
	before := meter.LiveWithStacks()
	s := meter.Start()
	// A growing million of stacks would be marked again and again, which takes longer than all the rest.
	collecting := debug.SetGCPercent(-1)
	hold(p, n, keys)
	debug.SetGCPercent(collecting)
	c := s.Stop()
	after := meter.LiveWithStacks()
	r.add("P5", fmt.Sprintf("keys=%d/N=%d", keys, n), name, round, int64(n), map[string]float64{
		result.Bytes:    (float64(after) - float64(before)) / float64(n),
		result.AllocsOp: float64(c.Mallocs) / float64(n),
	})
	r.tidy(p.Close)
}

func idleOne(r *Run, round int, name string) {
	p := purgatories.ByName(name).New()
	hold(p, r.Million, 1)
	rest(p)
	r.add("P7", fmt.Sprintf("N=%d", r.Million), name, round, int64(r.Million), idleCost(r))
	r.tidy(p.Close)
}

// idleCost returns the milliseconds of processor time that the process uses in a second in which the benchmark sleeps, and
// what it allocates. What was done before has left something to the scavenger, which is given back first.
func idleCost(r *Run) map[string]float64 {
	slice := time.Second
	if r.Million < Million {
		slice = 10 * time.Millisecond
	}
	debug.FreeOSMemory()
	time.Sleep(slice / 2)
	s := meter.Start()
	time.Sleep(slice)
	c := s.Stop()
	return map[string]float64{
		result.CPUIdle:   float64(c.CPU) / float64(time.Millisecond) / c.Wall.Seconds(),
		result.AllocsSec: float64(c.Mallocs) / c.Wall.Seconds(),
	}
}
