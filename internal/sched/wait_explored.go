//go:build interleave

package sched

import "time"

// Receive receives from c.
func Receive(c <-chan struct{}) { Either(c, nil) }

// Either receives from a or b, and reports whether it was a. If both are ready, it is a; in a
// normal build, select chooses at random.
func Either(a, b <-chan struct{}) bool {
	Yield()
	sleep("waits", func() bool { return ready(a) || ready(b) })
	if ready(a) {
		<-a
		return true
	}
	<-b
	return false
}

// ready reports whether a receive from c would not block. c is either a channel that is only
// closed, or one with a buffer.
func ready(c <-chan struct{}) bool { return len(c) > 0 || cap(c) == 0 && closed(c) }

// Pause waits until no other goroutine can run or done is closed.
func Pause(_ time.Duration, done <-chan struct{}) {
	Yield()
	if installed != nil {
		installed.Pause(func() bool { return closed(done) })
	}
}
