//go:build !interleave

package sched

import "sync/atomic"

// Event lets one goroutine sleep until others wake it. What has happened is a set of bits, so
// that wake-ups coalesce. Set is safe for concurrent use; one goroutine at a time may call
// Wait. Init must be called before use.
//
// The Set that finds no bit sends a token, and Wait receives that token before it clears the
// bits. So there is at most one token, and Set does not block. Wait returns for every bit
// that was set, and returns no empty set unless done is closed.
type Event struct {
	bits  atomic.Uint32
	token chan struct{}
}

// Init makes e ready for use.
func (e *Event) Init() { e.token = make(chan struct{}, 1) }

// Set adds bits and wakes the goroutine in Wait. It does not block.
func (e *Event) Set(bits uint32) {
	if e.bits.Or(bits) == 0 {
		e.token <- struct{}{}
	}
}

// Wait blocks until a bit is set, and then clears and returns all bits. It returns 0 if done
// is closed before; if both are the case, it may do either. The Set of each returned bit
// happens before Wait returns.
func (e *Event) Wait(done <-chan struct{}) (bits uint32) {
	select {
	case <-e.token:
		return e.bits.Swap(0)
	case <-done:
		return 0
	}
}
