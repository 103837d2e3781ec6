package workload

import (
	"fmt"
	"runtime"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// footprint measures T3, bytes per pending timer. What the caller keeps to be able to cancel (handle, key, the entry)
// counts.
func footprint(r *Run) {
	for round := range r.longRounds() {
		for _, peer := range timers.Peers() {
			if r.Quick && (!peer.Main || peer.Name == timers.Heap) {
				continue
			}
			r.turn(fmt.Sprintf("T3  round %d  %s", round+1, peer.Name), func() {
				r.add("T3", fmt.Sprintf("N=%d", r.Million), peer.Name, round, int64(r.Million), r.pendingBytes(r.Million, peer))
			})
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
