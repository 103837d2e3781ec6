package workload

import (
	"fmt"
	"slices"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// stdAlonePeer names the reference of P1 and P2.
const stdAlonePeer = "std-alone"

const (
	batch     = 64
	ownKeys   = 500
	quietKeys = 1000
	variants  = 16 // key sets prepared for each own key
	lifetime  = 30 * time.Second
)

// life measures P1, P2 and P3, an operation's life from submission to completion. What the targets hold it against, the
// standard library's AfterFunc+Stop alone and cb, takes turns with it slice by slice; in the same round, the floor.
func life(r *Run) {
	for round := range r.Rounds {
		r.turn(fmt.Sprintf("P1, P2  round %d of %d  std-alone, ours, cb", round+1, r.Rounds), func() {
			lifeBeside(r, round)
			r.addRate("P1", "G=1", "floor", round, floor(r))
		})
		for _, name := range []string{purgatories.Lazy, purgatories.Chan} {
			r.turn(fmt.Sprintf("P1, P2  round %d of %d  %s", round+1, r.Rounds, name), func() {
				p := purgatories.ByName(name).New()
				for _, g := range []int{1, 2} {
					params := fmt.Sprintf("G=%d", g)
					r.addRate("P1", params, name, round, lives(r.Window, p, g, 1))
					r.addRate("P2", params, name, round, lives(r.Window, p, g, 3))
				}
				p.Close()
			})
		}
		if r.Full && round < r.fewRounds() {
			lifeAmongMany(r, round)
		}
	}
}

// lifeBeside measures ours, cb and the standard library's timer side by side. They keep nothing that ends, so that one's
// heap is no burden to the others.
func lifeBeside(r *Run, round int) {
	peers := []purgatories.Peer{purgatories.ByName(purgatories.Ours), purgatories.ByName(purgatories.CB)}
	std := timers.ByName(timers.Std).New()
	made := make([]purgatories.Purgatory, len(peers))
	for i, peer := range peers {
		made[i] = peer.New()
	}
	for _, g := range []int{1, 2} {
		params := fmt.Sprintf("G=%d", g)
		for _, w := range []struct {
			name string
			keys int
		}{{"P1", 1}, {"P2", 3}} {
			loops := []func(worker, n int){atOnceLoop(std, g, requests)}
			keys := lifeKeys(g, w.keys)
			for _, p := range made {
				loops = append(loops, lifeLoop(p, keys))
			}
			rates := meter.Alternate(g, r.Window, 4*batch, loops...)
			r.addRate(w.name, params, stdAlonePeer, round, rates[0])
			for i, peer := range peers {
				r.addRate(w.name, params, peer.Name, round, rates[i+1])
			}
		}
	}
	for _, p := range made {
		p.Close()
	}
	std.Close()
}

// lifeAmongMany is P3: P2 on top of a million long operations on a thousand other keys. The goroutine per request is left
// out: a million stacks are P5's business.
func lifeAmongMany(r *Run, round int) {
	for _, name := range []string{purgatories.Ours, purgatories.CB} {
		r.turn(fmt.Sprintf("P3  round %d of %d  %s", round+1, r.fewRounds(), name), func() { lifeAmong(r, round, name) })
	}
}

func lifeAmong(r *Run, round int, name string) {
	p := purgatories.ByName(name).New()
	defer r.tidy(p.Close)
	crowd(p, r.Million)
	for _, g := range []int{1, 2} {
		// Whole cycles of the collector, as in T1.
		rate := lives(4*r.Window, p, g, 3)
		r.addRate("P3", fmt.Sprintf("G=%d/P=%d", g, r.Million), name, round, rate)
	}
	if p.Stale() >= 0 {
		// Watched from outside the timed loop, at a tenth of the window: looking costs something too.
		peak := meter.WatchPeak(2*time.Millisecond, p.Stale)
		lives(r.Window, p, 2, 3)
		r.add("P3", fmt.Sprintf("G=2/P=%d/watched", r.Million), name, round, 0,
			map[string]float64{result.StalePeak: float64(peak.Stop())})
	}
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
	keys [][]string // see lifeKeys
	next int
	_    [64]byte
}

func lives(window time.Duration, p purgatories.Purgatory, g, keys int) meter.Rate {
	return meter.Loop(g, window, 4*batch, lifeLoop(p, lifeKeys(g, keys)))
}

// lifeKeys returns, for each of g workers, variants of its own keys, one after the other.
func lifeKeys(g, keys int) [][][]string {
	quiet := keySets(quietKeys, func(i int) []string { return []string{fmt.Sprintf("quiet-%d", i)} })
	workers := make([][][]string, g)
	for w := range workers {
		rng := random(w)
		own := keySets(ownKeys, func(i int) []string { return []string{fmt.Sprintf("own-%d-%d", w, i)} })
		workers[w] = keySets(ownKeys*variants, func(i int) []string {
			set := slices.Clip(own[i/variants]) // no more live heap than the keys are: the collector's share is the user's
			for len(set) < keys {
				set = append(set, quiet[rng.IntN(quietKeys)][0])
			}
			return set
		})
	}
	return workers
}

// lifeLoop returns the body of the loop: n operations' lives, n a multiple of the batch.
func lifeLoop(p purgatories.Purgatory, keys [][][]string) func(worker, n int) {
	workers := make([]*lifeWorker, len(keys))
	for w := range workers {
		workers[w] = &lifeWorker{lane: purgatories.NewLane(), keys: keys[w]}
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
