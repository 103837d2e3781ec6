package workload

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/timers"
)

const (
	batch     = 64
	ownKeys   = 500
	quietKeys = 1000
	variants  = 16 // key sets prepared for each own key
	lifetime  = 30 * time.Second
)

// life measures P1, P2 and P3, an operation's life from submission to completion.
func life(r *Run) {
	peers := []string{purgatories.Ours, purgatories.CB, purgatories.Chan}
	r.each("P1, P2", cmp.Or(r.Rounds, 4), peers, func(round int, peer string) {
		lifeBeside(r, round, peer, "", 3*r.Window/2)
	})
	// These take longer, so there are fewer rounds of them.
	r.each("P1, P2 beside a live heap", r.longRounds(), peers, func(round int, peer string) {
		window := 8 * r.Window // as that of P3: for whole cycles of the collector
		if r.Quick {
			window = 3 * r.Window
		}
		held := meter.Hold(r.Heap)
		lifeBeside(r, round, peer, fmt.Sprintf("/heap=%dMB", r.Heap>>20), window)
		runtime.KeepAlive(held)
	})
	if !r.Quick {
		r.each("P3", r.longRounds(), peers, func(round int, peer string) { lifeAmong(r, round, peer) })
	}
}

// lifeBeside measures P1 and P2 of one peer. Ours take turns with the standard library's AfterFunc and Stop: that keeps
// nothing, so the world is still its own.
func lifeBeside(r *Run, round int, peer, heap string, window time.Duration) {
	p := purgatories.New(peer)
	measure := func(workload string, g, keys int) {
		names, bodies := []string{peer}, []func(worker, n int){LifeLoop(p, g, keys)}
		if peer == purgatories.Ours {
			names = append(names, timers.Alone)
			bodies = append(bodies, newAddCancelLoop(timers.New(timers.Std), g, 1, requests).run)
		}
		for i, rate := range meter.Alternate(g, window, 4*batch, bodies...) {
			r.addRate(workload, fmt.Sprintf("G=%d%s", g, heap), names[i], round, rate)
		}
	}
	for _, g := range []int{1, 2} {
		measure("P1", g, 1)
		measure("P2", g, 3)
	}
}

// lifeAmong measures P3: P2 on top of a million long operations on a thousand other keys.
func lifeAmong(r *Run, round int, peer string) {
	p := purgatories.New(peer)
	r.crowd(p, r.Million, 1)
	for _, g := range []int{1, 2} {
		// For whole cycles of the collector, which has many to mark.
		rate := meter.Loop(g, 8*r.Window, 4*batch, LifeLoop(p, g, 3))
		r.addRate("P3", fmt.Sprintf("G=%d/P=%d", g, r.Million), peer, round, rate)
	}
}

func keySets(n int, of func(i int) []string) [][]string {
	out := make([][]string, n)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

type lifeWorker struct {
	lane *purgatories.Lane
	keys [][]string // variants of each own key, one after the other
	next int
	_    [64]byte
}

// LifeLoop returns the body of a loop for g goroutines: n operations' lives, n a multiple of the batch.
func LifeLoop(p purgatories.Purgatory, g, keys int) func(worker, n int) {
	quiet := keySets(quietKeys, func(i int) []string { return []string{fmt.Sprintf("quiet-%d", i)} })
	workers := make([]*lifeWorker, g)
	for w := range workers {
		rng := random(w)
		own := keySets(ownKeys, func(i int) []string { return []string{fmt.Sprintf("own-%d-%d", w, i)} })
		workers[w] = &lifeWorker{
			lane: purgatories.NewLane(),
			keys: keySets(ownKeys*variants, func(i int) []string {
				set := slices.Clip(own[i/variants]) // no more live heap than the keys are: the collector's share is the user's
				for len(set) < keys {
					set = append(set, quiet[rng.IntN(quietKeys)][0])
				}
				return set
			}),
		}
	}
	return func(worker, n int) {
		w := workers[worker]
		for ; n > 0; n -= batch {
			w.next = (w.next + 1) % ownKeys
			w.life(p, w.keys[w.next*variants:][:variants])
		}
	}
}

func (w *lifeWorker) life(p purgatories.Purgatory, keys [][]string) {
	w.lane.Expect(batch)
	for i := range batch {
		p.Submit(w.lane, lifetime, keys[i%variants])
	}
	p.Settle(w.lane)
	w.lane.Arrive()
	p.Check(keys[0][0])
	w.lane.Wait()
}
