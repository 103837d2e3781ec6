package workload

import (
	"fmt"
	"runtime"
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
	if r.Scope == Essentials {
		return
	}
	submitters := []int{1}
	if r.Scope == Complete {
		submitters = []int{1, 2}
	}
	for round := range r.longRounds() {
		for _, g := range submitters {
			for _, name := range r.expiring(round) {
				r.turn(fmt.Sprintf("P6  round %d  G=%d  %s", round+1, g, name), func() {
					expiringOne(r, round, r.Million, g, purgatories.ByName(name))
				})
			}
		}
	}
}

// expiring are the peers of P6, which take up to thirteen seconds each.
func (r *Run) expiring(round int) []string {
	names := []string{purgatories.Ours, purgatories.Timers}
	if r.besides(round) {
		names = append(names, purgatories.CB)
	}
	if r.Scope == Complete {
		names = append(names, purgatories.Lazy, purgatories.Chan)
	}
	return names
}

func expiringOne(r *Run, round, n, g int, peer purgatories.Peer) {
	params := fmt.Sprintf("G=%d/N=%d", g, n)
	keys := keySets(quietKeys, func(i int) []string { return []string{fmt.Sprintf("key-%d", i)} })
	// Three seconds to submit them in: a goroutine for each takes its time.
	ds := delays(round, n, 3*time.Second, 4*time.Second)
	late := meter.NewLateness(n)
	probes := probesOf(late, n)
	p := peer.New()
	defer r.tidy(p.Close)
	meter.PrefaultForGrowth()
	idle := runtime.NumGoroutine()
	peak := meter.WatchGoroutines()
	s := meter.Start()
	together(g, n, func(_, from, to int) {
		for i := from; i < to; i++ {
			late.Due(i, ds[i])
			p.Probe(&probes[i], ds[i], keys[i%len(keys)])
		}
	})
	missing := await(late, 30*time.Second)
	c := s.Stop()
	m := map[string]float64{
		result.CPUSec:   c.CPU.Seconds(),
		result.AllocsOp: float64(c.Mallocs) / float64(n),
		result.Routines: float64(peak.Stop() - idle),
	}
	r.lost(peer.Name, missing, m)
	r.lateMetrics("P6", params, peer.Name, late.Sorted(), m)
	r.add("P6", params, peer.Name, round, int64(n), m)
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
	loads := []int{1}
	if r.Scope == Complete {
		loads = []int{1, 2}
	}
	for round := range r.longRounds() {
		for _, g := range loads {
			for _, name := range r.amongMany(purgatories.Timers) {
				r.turn(fmt.Sprintf("P8  round %d  G=%d  %s", round+1, g, name), func() {
					p := purgatories.ByName(name).New()
					crowd(p, r.Million)
					probesOne(r, round, g, p, name)
					r.tidy(p.Close)
				})
			}
		}
	}
}

// amongMany are the peers of what is measured with a million pending: no target refers to any but ours.
func (r *Run) amongMany(std string) []string {
	switch r.Scope {
	case Essentials:
		return []string{purgatories.Ours}
	case Full:
		return []string{purgatories.Ours, std}
	default:
		return []string{purgatories.Ours, std, purgatories.CB, purgatories.Lazy, purgatories.Chan}
	}
}

func probesOne(r *Run, round, g int, p purgatories.Purgatory, name string) {
	const every = 2 * time.Millisecond
	window := 25 * r.Window
	n := int(window / every)
	late := meter.NewLateness(n)
	probes := probesOf(late, n)
	keys := keySets(n, func(i int) []string { return []string{fmt.Sprintf("probe-%d", i%100)} })
	ds := delays(4, n, 20*time.Millisecond, 100*time.Millisecond)
	load := lifeLoop(p, g, 3)
	if name == purgatories.Timers { // which has no checks
		load = atOnceLoop(timers.ByName(timers.Std).New(), g, requests)
	}
	var (
		lives   atomic.Int64
		stopped atomic.Bool
		loading sync.WaitGroup
	)
	s := meter.Start()
	for worker := range g {
		loading.Go(func() {
			for !stopped.Load() {
				load(worker, 4*batch)
				lives.Add(4 * batch)
			}
		})
	}
	tick := time.NewTicker(every)
	for i, d := range ds {
		<-tick.C
		late.Due(i, d)
		p.Probe(&probes[i], d, keys[i])
	}
	tick.Stop()
	missing := await(late, 10*time.Second)
	stopped.Store(true)
	loading.Wait()
	c := s.Stop()
	m := map[string]float64{result.AllocsOp: float64(c.Mallocs) / float64(lives.Load()+int64(n))}
	r.lost(name, missing, m)
	params := fmt.Sprintf("G=%d/P=%d", g, r.Million)
	r.lateMetrics("P8", params, name, late.Sorted(), m)
	r.add("P8", params, name, round, int64(n), m)
}
