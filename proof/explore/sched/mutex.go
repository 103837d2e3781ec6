//go:build interleave

package sched

// Mutex is a mutual exclusion lock whose owner the scheduler chooses. Lock and TryLock yield
// before they read the state; Unlock yields while the lock is still held, so that other
// goroutines find it held.
type Mutex struct{ held bool }

// Lock locks m. While m is held, it lets other goroutines run.
func (m *Mutex) Lock() {
	Yield()
	if m.held {
		sleep("waits for a lock", func() bool { return !m.held })
	}
	m.held = true
}

// TryLock locks m if it is free.
func (m *Mutex) TryLock() bool {
	Yield()
	if m.held {
		return false
	}
	m.held = true
	return true
}

// Unlock unlocks m.
func (m *Mutex) Unlock() {
	Yield()
	if !m.held {
		panic("sched: unlock of a mutex that is not locked")
	}
	m.held = false
}
