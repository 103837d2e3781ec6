package workload

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// expiringOperations measures P6: a million operations on a thousand keys that expire within one second.
func expiringOperations(r *Run) {
	for round := range r.longRounds() {
		for _, name := range r.among() {
			r.turn(fmt.Sprintf("P6  round %d  %s", round+1, name), func() {
				expiringOne(r, round, r.Million, purgatories.ByName(name))
			})
		}
	}
}

func expiringOne(r *Run, round, n int, peer purgatories.Peer) {
	params := fmt.Sprintf("G=1/N=%d", n)
	keys := keySets(quietKeys, func(i int) []string { return []string{fmt.Sprintf("key-%d", i)} })
	// Three seconds to submit them in: a goroutine for each takes its time.
	ds := delays(round, n, 3*time.Second, 4*time.Second)
	late := meter.NewLateness(n)
	probes := probesOf(late, n)
	p := peer.New()
	defer r.tidy(p.Close)
	meter.PrefaultForGrowth()
	s := meter.Start()
	for i, d := range ds {
		late.Due(i, d)
		p.Probe(&probes[i], d, keys[i%len(keys)])
	}
	await(late, 30*time.Second)
	c := s.Stop()
	m := map[string]float64{
		result.CPUSec:   c.CPU.Seconds(),
		result.AllocsOp: float64(c.Mallocs) / float64(n),
	}
	r.addLate("P6", params, peer.Name, round, late, m)
}

func probesOf(late *meter.Lateness, n int) []purgatories.Probe {
	probes := make([]purgatories.Probe, n)
	for i := range probes {
		probes[i] = purgatories.Probe{Late: late, Index: i}
	}
	return probes
}

// probesBeside measures P8: P3, and beside it an operation every 2 ms with a timeout of 20..100 ms on keys of its own.
func probesBeside(r *Run) {
	for round := range r.longRounds() {
		for _, name := range r.among(purgatories.Ours) {
			r.turn(fmt.Sprintf("P8  round %d  %s", round+1, name), func() {
				p := purgatories.ByName(name).New()
				crowd(p, r.Million)
				probesOne(r, round, p, name)
				r.tidy(p.Close)
			})
		}
	}
}

// among are the peers of a workload: in a quick run those that are named.
func (r *Run) among(quick ...string) []string {
	if r.Quick {
		return quick
	}
	return []string{purgatories.Ours, purgatories.Timers, purgatories.CB, purgatories.Chan}
}

func probesOne(r *Run, round int, p purgatories.Purgatory, name string) {
	const every = 2 * time.Millisecond
	window := 25 * r.Window
	n := int(window / every)
	late := meter.NewLateness(n)
	probes := probesOf(late, n)
	keys := keySets(n, func(i int) []string { return []string{fmt.Sprintf("probe-%d", i%100)} })
	ds := delays(4, n, 20*time.Millisecond, 100*time.Millisecond)
	load := lifeLoop(p, 1, 3)
	if name == purgatories.Timers { // which has no checks
		load = atOnceLoop(timers.ByName(timers.Std).New(), 1, requests)
	}
	var (
		lives   atomic.Int64
		stopped atomic.Bool
		loading sync.WaitGroup
	)
	s := meter.Start()
	loading.Go(func() {
		for !stopped.Load() {
			load(0, 4*batch)
			lives.Add(4 * batch)
		}
	})
	tick := time.NewTicker(every)
	for i, d := range ds {
		<-tick.C
		late.Due(i, d)
		p.Probe(&probes[i], d, keys[i])
	}
	tick.Stop()
	await(late, 10*time.Second)
	stopped.Store(true)
	loading.Wait()
	c := s.Stop()
	m := map[string]float64{result.AllocsOp: float64(c.Mallocs) / float64(lives.Load()+int64(n))}
	params := fmt.Sprintf("G=1/P=%d", r.Million)
	r.addLate("P8", params, name, round, late, m)
}
