package sched

import (
	"runtime"
	"time"
)

// GiveWay lets other goroutines run that the caller has made ready and, if a millisecond has passed since the
// given time, other threads. Call it after each batch: with the zero time first, and then with its last result.
//
// Linux may leave a thread that was woken up behind the one that woke it until the next tick, 4 ms: beside a
// herd of 100,000 waits that end, a goroutine wakes up 1.2 ms late instead of 4.7 because the thread yields.
// Where other processes keep all processors busy, it then waits while they run: so it yields once in a
// millisecond, and not in the first. See docs/decisions.md#a-walk-gives-way.
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
