package workload

import (
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
	rounds := r.rounds(4)
	for round := range rounds {
		for _, peer := range purgatories.Peers() {
			r.turn(fmt.Sprintf("P1, P2  round %d of %d  %s", round+1, rounds, peer.Name), func() { lifeOne(r, round, peer) })
		}
		if !r.Quick && round < r.longRounds() {
			lifeAmongMany(r, round)
		}
	}
}

// lifeOne measures P1 and P2 twice: with next to no live heap, in slices each after a collection, and beside a live heap,
// in windows that have cycles of the collector in them.
func lifeOne(r *Run, round int, peer purgatories.Peer) {
	lifeBeside(r, round, peer, "", func(g int, bodies ...func(worker, n int)) []meter.Rate {
		return meter.Alternate(g, 3*r.Window/2, 4*batch, bodies...)
	})
	if r.Heap == 0 || round >= r.longRounds() { // it takes longer, so there are fewer rounds of it
		return
	}
	held := meter.Hold(r.Heap)
	lifeBeside(r, round, peer, HeapParam(r.Heap), func(g int, bodies ...func(worker, n int)) []meter.Rate {
		return meter.Share(g, r.besideHeapLong(), 4*batch, bodies...)
	})
	runtime.KeepAlive(held)
}

// HeapParam is what the parameters of P1 and P2 end in when they have a live heap of that many bytes beside them.
func HeapParam(bytes int) string { return fmt.Sprintf("/heap=%dMB", bytes>>20) }

// besideHeapLong is the window beside a live heap.
func (r *Run) besideHeapLong() time.Duration {
	if r.Quick {
		return 3 * r.Window
	}
	return 8 * r.Window // as that of P3 among a million: for whole cycles of the collector
}

// lifeBeside measures P1 and P2 of one peer. Ours take turns with the standard library's AfterFunc+Stop:
// that keeps nothing, so the world is still its own.
func lifeBeside(r *Run, round int, peer purgatories.Peer, heap string, rates func(g int, bodies ...func(worker, n int)) []meter.Rate) {
	std, p := timers.ByName(timers.Std).New(), peer.New()
	measure := func(workload string, g, keys int) {
		names, bodies := []string{peer.Name}, []func(worker, n int){lifeLoop(p, g, keys)}
		beside := func(name string, body func(worker, n int)) {
			names, bodies = append(names, name), append(bodies, body)
		}
		if peer.Name == purgatories.Ours {
			beside(timers.Alone, atOnceLoop(std, g, requests))
		}
		for i, rate := range rates(g, bodies...) {
			r.addRate(workload, fmt.Sprintf("G=%d%s", g, heap), names[i], round, rate)
		}
	}
	for _, g := range []int{1, 2} {
		measure("P1", g, 1)
		measure("P2", g, 3)
	}
	p.Close()
	std.Close()
}

// lifeAmongMany is P3: P2 on top of a million long operations on a thousand other keys, and before they come.
func lifeAmongMany(r *Run, round int) {
	for _, peer := range purgatories.Peers() {
		r.turn(fmt.Sprintf("P3  round %d of %d  %s", round+1, r.longRounds(), peer.Name), func() { lifeAmong(r, round, peer) })
	}
}

func lifeAmong(r *Run, round int, peer purgatories.Peer) {
	p := peer.New()
	defer r.tidy(p.Close)
	measure := func(pending int, window time.Duration) {
		for _, g := range []int{1, 2} {
			r.addRate("P3", fmt.Sprintf("G=%d/P=%d", g, pending), peer.Name, round, lives(window, p, g, 3))
		}
	}
	measure(0, 3*r.Window)
	crowd(p, r.Million)
	measure(r.Million, 8*r.Window) // for whole cycles of the collector, which has many to mark
}

// crowd submits n long operations on a thousand keys of their own.
func crowd(p purgatories.Purgatory, n int) {
	keys := keySets(quietKeys, func(i int) []string { return []string{fmt.Sprintf("crowd-%d", i)} })
	lane := purgatories.NewLane()
	for i, d := range delays(2, n, 10*time.Minute, 20*time.Minute) {
		p.Submit(lane, d, keys[i%len(keys)])
	}
	for p.Pending() < n {
		time.Sleep(time.Millisecond)
	}
	rest(p)
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

func lives(window time.Duration, p purgatories.Purgatory, g, keys int) meter.Rate {
	return meter.Loop(g, window, 4*batch, lifeLoop(p, g, keys))
}

// lifeLoop returns the body of the loop: n operations' lives, n a multiple of the batch.
func lifeLoop(p purgatories.Purgatory, g, keys int) func(worker, n int) {
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
