package workload

import (
	"fmt"
	"sync"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
)

// Names of the peers beside ours.
const (
	goCheck       = "go-check" // starts a goroutine for every signal
	condBroadcast = "std-cond" // sync.Cond's Broadcast, to as many goroutines that wait
)

// signals measures S1: what it costs to tell the purgatory that a key has changed, with 64 operations waiting there whose
// condition is not met: handed to the workers (Signal), checked at once (CheckAndComplete), and checked on a goroutine
// made for it, which is what people write to get out from under their own lock. The standard library has a sync.Cond for
// it, and its waiters have goroutines that look at the condition themselves.
func signals(r *Run) {
	for round := range r.rounds(3) {
		for _, g := range []int{1, 2} {
			turn := func(how string, measure func()) {
				r.turn(fmt.Sprintf("S1  round %d of %d  G=%d %s", round+1, r.rounds(3), g, how), measure)
			}
			for _, how := range []string{"ours-signal", "ours-check", goCheck} {
				turn(how, func() { signalsOne(r, round, g, how) })
			}
			turn(condBroadcast, func() { broadcastOne(r, round, g) })
		}
	}
}

// broadcastOne is S1 with goroutines that wait for a sync.Cond. The state changes under its lock, as it must for a waiter not
// to miss it between its look and its wait.
func broadcastOne(r *Run, round, g int) {
	var (
		mu      sync.Mutex
		changed = sync.NewCond(&mu)
		state   int64
		stopped bool
		looks   int64
		waiting sync.WaitGroup
	)
	lane := purgatories.NewLane()
	for range batch {
		waiting.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for looks++; !lane.Ready() && !stopped; looks++ {
				changed.Wait()
			}
		})
	}
	for all := false; !all; time.Sleep(time.Millisecond) {
		mu.Lock()
		all = looks == batch // and they wait, for else one of them would have the lock
		mu.Unlock()
	}
	rate := meter.Loop(g, r.Window, 200, func(_, n int) {
		for range n {
			mu.Lock()
			state++
			mu.Unlock()
			changed.Broadcast()
		}
	})
	m := rateMetrics(rate)
	mu.Lock()
	m[result.Coalesced] = float64(state) / (float64(looks) / batch)
	r.add("S1", signalParams(g), condBroadcast, round, rate.Ops, m)
	stopped = true
	mu.Unlock()
	changed.Broadcast()
	waiting.Wait()
}

func signalParams(g int) string { return fmt.Sprintf("G=%d/waiters=%d", g, batch) }

func signalsOne(r *Run, round, g int, how string) {
	const key = "key"
	p := purgatories.ByName(purgatories.Ours).New()
	lane := purgatories.NewLane()
	for range batch {
		p.Submit(lane, lifetime, []string{key})
	}
	deferred := p.(purgatories.Deferred)
	var stray sync.WaitGroup // of goCheck: one that outlives the loop would share the lane with Close
	tell := map[string]func(){
		"ours-signal": func() { deferred.Signal(key) },
		"ours-check":  func() { p.Check(key) },
		goCheck:       func() { stray.Go(func() { p.Check(key) }) },
	}[how]
	rate := meter.Loop(g, r.Window, 200, func(_, n int) {
		for range n {
			tell()
		}
	})
	m := rateMetrics(rate)
	if how == "ours-signal" {
		time.Sleep(10 * time.Millisecond) // the last check
		if signalled, checks := deferred.Signalled(); checks > 0 {
			m[result.Coalesced] = float64(signalled) / float64(checks)
		}
	}
	r.add("S1", signalParams(g), how, round, rate.Ops, m)
	stray.Wait()
	p.Close()
}
