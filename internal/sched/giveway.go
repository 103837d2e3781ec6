package sched

import (
	"runtime"
	"time"
)

// GiveWay lets other goroutines run that the caller has made ready and, if a millisecond has passed
// since the given time, the threads that they run on. The caller makes many ready, and calls GiveWay
// after each batch: with the zero time first, and then with the result of the call before.
//
// Linux may put a thread that was woken up behind the one that woke it, though another processor is
// idle, and leaves it there until the next tick: 4 ms, if the kernel ticks 250 times a second. The
// goroutines and timers that the thread was to serve wait as long. Beside a herd of 100,000 waits that
// end, a goroutine wakes up 1.2 ms late instead of 4.7 because the thread yields. But where other
// processes keep all processors busy, a thread that yields waits while they run. So it yields once in
// a millisecond, and not at all in the first. See docs/internals/decisions.md#a-walk-gives-way.
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
