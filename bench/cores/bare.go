package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/bench/cores/model"
)

// A goroutine takes a lock again and again, as a check does that reads a list in parts, and another one wants it now and then.
// The second one gets the lock while it spins, if the first one does not hold it for too long at a time. Otherwise it sleeps;
// whenever it wakes up, the first one has the lock again, until it has waited for a millisecond: that is starvation mode.
const (
	bareGap   = 300 * time.Nanosecond // for which the lock is free
	bareThink = 20 * time.Microsecond // of the second goroutine
)

// starvingAt returns the share of the second goroutine's waits that last for a millisecond and more, and how many waits there
// were.
func starvingAt(hold, most time.Duration) (share float64, n int) {
	var starving, all atomic.Int64
	for begun := time.Now(); all.Load() < 500 && time.Since(begun) < most; {
		var lock struct {
			_ [64]byte
			sync.Mutex
			_ [64]byte
		}
		aWindow(2, 20*time.Millisecond, alone, func(worker int, s *stream) {
			if worker == 0 {
				for s.more(1) {
					lock.Lock()
					spin(hold)
					lock.Unlock()
					spin(bareGap)
				}
				return
			}
			for s.more(1) {
				begun := time.Now()
				lock.Lock()
				took := time.Since(begun)
				lock.Unlock()
				if took > model.AWait {
					all.Add(1)
				}
				if took > time.Millisecond {
					starving.Add(1)
				}
				spin(bareThink)
			}
		})
	}
	return float64(starving.Load()) / float64(max(all.Load(), 1)), int(all.Load())
}

// spin keeps a processor busy.
func spin(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

// bareHolds are the hold times that are tried.
var bareHolds = []time.Duration{500, 1000, 1500, 2000, 3000, 5000, 10_000, 30_000, 100_000} // ns

func writeBare(w io.Writer, most time.Duration) {
	fmt.Fprintf(w, "%10s %10s %8s\n", "hold", "starving", "waits")
	for _, hold := range bareHolds {
		share, n := starvingAt(hold, most)
		fmt.Fprintf(w, "%10s %9.1f%% %8d\n", hold, 100*share, n)
	}
}
