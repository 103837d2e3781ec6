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
	for _, peer := range timers.Peers() {
		if !r.Full && (!peer.Main || peer.Name == timers.Heap) {
			continue
		}
		r.turn("T3  "+peer.Name, func() {
			r.add("T3", fmt.Sprintf("N=%d", r.Million), peer.Name, 0, int64(r.Million),
				map[string]float64{result.Bytes: r.pendingBytes(r.Million, peer)})
		})
		r.turn("T4  "+peer.Name, func() {
			r.add("T4", fmt.Sprintf("N=%d", r.Million), peer.Name, 0, int64(r.Million),
				map[string]float64{result.Retained: retainedBytes(r.Million, peer)})
		})
	}
}

func (r *Run) pendingBytes(n int, peer timers.Peer) float64 {
	t := peer.New()
	ds := delays(0, n, 60*time.Second, 120*time.Second)
	before := meter.Live()
	slots := t.Slots(n, nil)
	for i, d := range ds {
		slots.Add(i, d)
	}
	after := meter.Live()
	r.tidy(func() {
		for i := range n {
			slots.Cancel(i)
		}
		t.Close()
	})
	runtime.KeepAlive(ds)
	return (float64(after) - float64(before)) / float64(n)
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

func retainedBytes(n int, peer timers.Peer) float64 {
	t := peer.New()
	defer t.Close()
	ds := delays(0, n, 60*time.Second, 120*time.Second)
	before := meter.Live()
	startAndCancel(t, ds)
	after := meter.Live()
	runtime.KeepAlive(ds)
	return max(0, float64(after)-float64(before)) / float64(n)
}
