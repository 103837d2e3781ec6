package sched

import (
	"runtime"
	"time"
)

// GiveWay lets other goroutines run that the caller has made ready and, once in a millisecond, other threads.
// Call it after each batch: with the zero time first, and then with its last result.
//
// Linux may leave a woken thread behind the one that woke it until the next tick, 4 ms: beside 100,000 waits
// that end, a goroutine wakes up 1.2 ms late instead of 4.7 because the thread yields. On a busy machine it
// waits longer then, so not in the first millisecond. See docs/internals/decisions.md#a-walk-gives-way.
func GiveWay(since time.Time) time.Time {
	runtime.Gosched()
	now := time.Now()
	if since.IsZero() {
		return now
	}
	if now.Sub(since) < time.Millisecond {
		return since
	}
	yieldThread()
	return time.Now()
}
