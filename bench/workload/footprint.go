package workload

import (
	"fmt"
	"runtime"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// footprint measures T3, bytes per pending timer, and T4, bytes retained after timers that held 256 bytes each were
// cancelled and let go. What the caller keeps to be able to cancel (handle, key, the entry) counts.
func footprint(r *Run) {
	for round := range r.longRounds() {
		for _, peer := range timers.Peers() {
			if r.Quick && (!peer.Main || peer.Name == timers.Heap) {
				continue
			}
			record := func(workload string, measure func(int, timers.Peer) map[string]float64) {
				r.turn(fmt.Sprintf("%s  round %d  %s", workload, round+1, peer.Name), func() {
					r.add(workload, fmt.Sprintf("N=%d", r.Million), peer.Name, round, int64(r.Million), measure(r.Million, peer))
				})
			}
			record("T3", r.pendingBytes)
			record("T4", retainedBytes)
		}
	}
}

func (r *Run) pendingBytes(n int, peer timers.Peer) map[string]float64 {
	t := peer.New()
	ds := delays(0, n, 60*time.Second, 120*time.Second)
	before := meter.Live()
	slots := t.Slots(n, nil)
	s := meter.Start()
	for i, d := range ds {
		slots.Add(i, d)
	}
	c := s.Stop()
	after := meter.Live()
	r.tidy(func() {
		for i := range n {
			slots.Cancel(i)
		}
		t.Close()
	})
	runtime.KeepAlive(ds)
	return map[string]float64{
		result.Bytes:    (float64(after) - float64(before)) / float64(n),
		result.AllocsOp: float64(c.Mallocs) / float64(n),
	}
}

func startAndCancel(t timers.Timers, ds []time.Duration) {
	cancels := make([]func(), len(ds))
	for i, d := range ds {
		cancels[i] = t.Hold(d, new(timers.Payload))
	}
	for _, cancel := range cancels {
		cancel()
	}
}

func retainedBytes(n int, peer timers.Peer) map[string]float64 {
	t := peer.New()
	defer t.Close()
	ds := delays(0, n, 60*time.Second, 120*time.Second)
	before := meter.Live()
	s := meter.Start()
	startAndCancel(t, ds)
	c := s.Stop()
	after := meter.Live()
	runtime.KeepAlive(ds)
	return map[string]float64{
		result.Retained: max(0, float64(after)-float64(before)) / float64(n),
		result.AllocsOp: float64(c.Mallocs) / float64(n), // the payload is one of them
	}
}
