package sched

import (
	"runtime"
	"time"
)

// GiveWay lets other goroutines run that the caller has made ready and, once in a millisecond, other threads:
// see docs/internals/decisions.md#a-walk-gives-way. Call it after each batch: with the zero time first, and
// then with its last result.
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
