package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/result"
)

// herd ends n waits of one key together, in five bursts. It returns how late a goroutine that has nothing to do with
// them wakes up at the worst, in all bursts but the worst one, and the median time until the last of the herd is awake.
func herd(s positions, n int, _ time.Duration) map[string]float64 {
	const bursts = 5
	var worst, last []time.Duration
	for burst := range bursts {
		var awake sync.WaitGroup
		for range n {
			awake.Go(func() { must(s.Wait(context.Background(), 0, int64(burst+1))) })
		}
		until(func() bool { return s.Waiting() == n })
		time.Sleep(50 * time.Millisecond) // the machine comes to rest
		latest := watchSleeper()
		start := time.Now()
		s.Advance(0, int64(burst+1))
		awake.Wait()
		last = append(last, time.Since(start))
		worst = append(worst, latest())
	}
	slices.Sort(worst)
	slices.Sort(last)
	return map[string]float64{result.LateMax: result.Milliseconds(worst[bursts-2]), lastMs: result.Milliseconds(last[bursts/2])}
}

// watchSleeper starts a goroutine that sleeps a millisecond at a time. latest stops it, and returns how late it was at the
// worst, the sleep in progress included.
func watchSleeper() (latest func() time.Duration) {
	const nap = time.Millisecond
	var stopped atomic.Bool
	worst := make(chan time.Duration, 1)
	go func() {
		for late := time.Duration(0); ; {
			start := time.Now()
			time.Sleep(nap)
			late = max(late, time.Since(start)-nap)
			if stopped.Load() {
				worst <- late
				return
			}
		}
	}()
	return func() time.Duration {
		stopped.Store(true)
		return <-worst
	}
}
