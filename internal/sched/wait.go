//go:build !interleave

package sched

import "time"

// Either waits until a or b is closed, and reports whether a is, at random if both are. A nil
// channel is never closed.
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
