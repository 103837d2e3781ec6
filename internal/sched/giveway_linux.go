package sched

import (
	"runtime"
	"syscall"
)

// GiveWay lets other goroutines run that the caller has made ready, and the threads that they run
// on. The kernel may have put a thread that was woken up behind the one that woke it, though another
// processor is idle, and leaves it there until its next tick: 4 ms, where it has 250 a second.
func GiveWay() {
	runtime.Gosched()
	_, _, _ = syscall.Syscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) // it cannot fail
}
