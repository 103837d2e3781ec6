//go:build interleave

package sched

// Event replaces the Event of a normal build. Wait may only be called in a run of a [Scheduler].
type Event struct{ bits uint32 }

// Init does nothing.
func (e *Event) Init() {}

// Set adds bits.
func (e *Event) Set(bits uint32) {
	Yield()
	e.bits |= bits
}

// Wait lets other goroutines run until a bit is set or done is closed. If both are the case,
// it returns the bits; in a normal build, select chooses at random.
func (e *Event) Wait(done <-chan struct{}) (bits uint32) {
	Yield()
	sleep("sleeps", func() bool { return e.bits != 0 || closed(done) })
	bits, e.bits = e.bits, 0
	return bits
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
