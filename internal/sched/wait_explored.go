//go:build interleave

package sched

import "time"

// Either waits until a or b is closed, and reports whether a is.
func Either(a, b <-chan struct{}) bool {
	Yield()
	sleep("waits", func() bool { return closed(a) || closed(b) })
	return closed(a)
}

// Pause waits until no other goroutine can run or done is closed.
func Pause(_ time.Duration, done <-chan struct{}) {
	Yield()
	if installed != nil {
		installed.Pause(func() bool { return closed(done) })
	}
}
