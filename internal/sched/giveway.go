package sched

import (
	"runtime"
	"time"
)

// GiveWay lets other goroutines run that the caller has made ready and, if a millisecond has passed
// since the given time, the threads that they run on. The caller makes many ready, and calls GiveWay
// after each batch: with the zero time first, and then with the result of the call before.
//
// The kernel may put a thread that was woken up behind the one that woke it, though another
// processor is idle. There Linux leaves it until the next tick, 4 ms where it has 250 a second, and
// the goroutines on it, and timers, wait as long. But where other processes use the processors, a
// thread that yields may have to wait for a tick of theirs. So a thread yields once in a millisecond,
// and not at all in the first.
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
