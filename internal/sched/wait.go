//go:build !interleave

package sched

import "time"

// Receive receives from c.
func Receive(c <-chan struct{}) { <-c }

// Either receives from a or b, whichever comes first, and reports whether it was a.
func Either(a, b <-chan struct{}) bool {
	select {
	case <-a:
		return true
	case <-b:
		return false
	}
}

// Pause waits until d has passed or done is closed. It is for a loop that polls. With the tag
// interleave it waits until no other goroutine can run.
func Pause(d time.Duration, done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(d):
	}
}
