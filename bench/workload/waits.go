package workload

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
)

// waits measures the blocking wait beside the one written by hand: a batch of 64 goroutines waits, is let go, and waits
// again; and the memory of 100,000 that wait.
func waits(r *Run) {
	for round := range r.rounds(5) {
		for _, peer := range purgatories.WaitsPeers() {
			r.turn(fmt.Sprintf("A1  round %d of %d  %s", round+1, r.rounds(5), peer.Name), func() {
				w := peer.New()
				r.addRate("A1", fmt.Sprintf("waiters=%d", batch), peer.Name, round, waitRounds(r, w))
				w.Close()
			})
		}
	}
	n := r.Million / 10
	r.inPairs(func() {
		for round := range r.longRounds() {
			for _, peer := range purgatories.WaitsPeers() {
				r.turn(fmt.Sprintf("A2  round %d  %s", round+1, peer.Name), func() {
					r.add("A2", fmt.Sprintf("N=%d", n), peer.Name, round, int64(n), waiting(peer.New(), n))
				})
			}
		}
	})
}

func waitRounds(r *Run, w purgatories.Waits) meter.Rate {
	const key = "key"
	var (
		ctx, cancel = context.WithCancel(context.Background())
		generation  atomic.Int64
		arrived     atomic.Int64
		waiting     sync.WaitGroup
	)
	for range batch {
		waiting.Go(func() {
			for mine := int64(1); ctx.Err() == nil; mine++ {
				arrived.Add(1)
				_ = w.Await(ctx, lifetime, func() bool { return generation.Load() >= mine }, key)
			}
		})
	}
	letGo := func() {
		// Everybody has come back from the wait before, and is in this one.
		next := generation.Load() + 1
		for arrived.Load() < next*batch || w.Waiting() < batch {
			runtime.Gosched()
		}
		generation.Add(1)
		w.Check(key)
	}
	rate := meter.Loop(1, r.Window, 4*batch, func(_, n int) {
		for ; n > 0; n -= batch {
			letGo()
		}
	})
	cancel()
	waiting.Wait()
	return rate
}

// waiting has n goroutines wait, and returns the bytes of one, its stack included, and how often it allocates.
func waiting(w purgatories.Waits, n int) map[string]float64 {
	keys := keySets(quietKeys, func(i int) []string { return []string{fmt.Sprintf("key-%d", i)} })
	ctx, cancel := context.WithCancel(context.Background())
	ready := func() bool { return false }
	var all sync.WaitGroup
	before := meter.LiveWithStacks()
	s := meter.Start()
	for i := range n {
		all.Go(func() { _ = w.Await(ctx, time.Hour, ready, keys[i%quietKeys][0]) })
	}
	for w.Waiting() < n {
		time.Sleep(time.Millisecond)
	}
	c := s.Stop()
	after := meter.LiveWithStacks()
	cancel()
	all.Wait()
	w.Close()
	return map[string]float64{
		result.Bytes:    (float64(after) - float64(before)) / float64(n),
		result.AllocsOp: float64(c.Mallocs) / float64(n),
	}
}
