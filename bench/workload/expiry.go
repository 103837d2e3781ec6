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

// timerExpiry measures T2: N timers with delays of 2..3 s.
func timerExpiry(r *Run) {
	for _, n := range []int{r.Million / 10, r.Million} {
		if r.Quick && n == r.Million {
			continue
		}
		r.each(fmt.Sprintf("T2  N=%d", n), r.longRounds(), r.timers(), func(round int, peer string) {
			timersExpire(r, round, n, peer)
		})
	}
}

func timersExpire(r *Run, round, n int, peer string) {
	late := meter.NewLateness(n)
	slots := timers.New(peer).Slots(n, late.Met)
	r.expire("T2", peer, round, late, r.deadlines(round, n, 2*time.Second, 3*time.Second), slots.Add)
}

// operationExpiry measures P6: a million operations on a thousand keys that expire within one second. There are three
// seconds to submit them in: a goroutine for each takes its time.
func operationExpiry(r *Run) {
	r.each("P6", r.longRounds(), r.operations(), func(round int, peer string) { operationsExpire(r, round, peer) })
}

func operationsExpire(r *Run, round int, peer string) {
	late := meter.NewLateness(r.Million)
	probes := purgatories.Probes(late, r.Million)
	keys := keySets(quietKeys, func(i int) []string { return []string{fmt.Sprintf("key-%d", i)} })
	p := purgatories.New(peer)
	ds := r.deadlines(round, r.Million, 3*time.Second, 4*time.Second)
	r.expire("P6", peer, round, late, ds, func(i int, d time.Duration) { p.Submit(&probes[i], d, keys[i%len(keys)]) })
}

// expire starts all that have these delays, and measures until the last of them has expired. Each records its lateness
// against its exact deadline.
func (r *Run) expire(workload, peer string, round int, late *meter.Lateness, ds []time.Duration, start func(i int, d time.Duration)) {
	meter.PrefaultForGrowth()
	s := meter.Start()
	for i, d := range ds {
		late.Due(i, d)
		start(i, d)
	}
	await(late)
	c := s.Stop()
	r.addLate(workload, fmt.Sprintf("G=1/N=%d", len(ds)), peer, round, late, map[string]float64{
		result.CPUSec:   c.CPU.Seconds(),
		result.AllocsOp: float64(c.Mallocs) / float64(len(ds)),
	})
}

// await waits until every deadline is met, or for so long that the rest is lost.
func await(late *meter.Lateness) {
	select {
	case <-late.Done:
	case <-time.After(30 * time.Second):
	}
}

// probesBeside measures P8: P3, and beside it an operation every 2 ms with a timeout of 20..100 ms on keys of its own.
func probesBeside(r *Run) {
	r.each("P8", r.longRounds(), r.operations(purgatories.Ours), func(round int, peer string) { probesOne(r, round, peer) })
}

func probesOne(r *Run, round int, peer string) {
	p := purgatories.New(peer)
	r.crowd(p, r.Million, 1)
	const every = 2 * time.Millisecond
	n := max(10, int(25*r.Window/every))
	late := meter.NewLateness(n)
	probes := purgatories.Probes(late, n)
	keys := keySets(n, func(i int) []string { return []string{fmt.Sprintf("probe-%d", i%100)} })
	ds := r.deadlines(4, n, 20*time.Millisecond, 100*time.Millisecond)
	load := LifeLoop(p, 1, 3)
	if peer == purgatories.Timers { // which has no checks
		load = newAddCancelLoop(timers.New(timers.Std), 1, 1, requests).run
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
		p.Submit(&probes[i], d, keys[i])
	}
	tick.Stop()
	await(late)
	stopped.Store(true)
	loading.Wait()
	c := s.Stop()
	r.addLate("P8", fmt.Sprintf("G=1/P=%d", r.Million), peer, round, late, map[string]float64{
		result.AllocsOp: float64(c.Mallocs) / float64(lives.Load()+int64(n)),
	})
}
