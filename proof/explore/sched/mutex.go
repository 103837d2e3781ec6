//go:build interleave

package sched

// Mutex is a mutual exclusion lock whose owner the scheduler chooses. Lock and TryLock yield
// before they read the state; Unlock yields while the lock is still held, so that other
// goroutines find it held.
type Mutex struct {
	held  bool
	since int // steps when it was locked
}

// steps counts what the goroutines of a run have done at points; longest is the most during which a Mutex was held.
var steps, longest int

// LongestHold returns how many points lay in the longest time for which a [Mutex] was held, since it was last called. Where one
// goroutine runs, they are that one's own.
func LongestHold() int {
	n := longest
	longest = 0
	return n
}

// Lock locks m. While m is held, it lets other goroutines run.
func (m *Mutex) Lock() {
	Yield()
	if m.held {
		sleep("waits for a lock", func() bool { return !m.held })
	}
	m.held, m.since = true, steps
}

// TryLock locks m if it is free.
func (m *Mutex) TryLock() bool {
	Yield()
	if m.held {
		return false
	}
	m.held, m.since = true, steps
	return true
}

// Unlock unlocks m.
func (m *Mutex) Unlock() {
	Yield()
	if !m.held {
		panic("sched: unlock of a mutex that is not locked")
	}
	m.held, longest = false, max(longest, steps-m.since)
	behind()
}
