// Package timers puts the timers that are compared behind one small face.
//
// A workload asks for Slots, room for n timers used by one goroutine, made before the clock starts. What a peer needs to
// know a pending timer again (a handle, a key, the entry itself) lives in the slot, so that every peer pays the same for
// remembering it.
package timers

import "time"

// Timers is one running peer. Its methods are safe for concurrent use.
type Timers interface {
	// Slots returns room for n timers. fired(i) is called when slot i expires; with a nil fired every timer shares one
	// function that does nothing, so that no closure is paid for.
	Slots(n int, fired func(i int)) Slots
}

// Slots is room for timers, used by one goroutine at a time.
type Slots interface {
	Add(i int, d time.Duration)
	Cancel(i int)
}

// Names of the peers.
const (
	Entry      = "ours-entry"
	Handle     = "ours-handle"
	Std        = "std"
	RussellLuo = "russellluo"

	Alone = "std-alone" // Std as the reference of an operation's life, beside which nothing is kept
)

var peers = map[string]func() Timers{
	Entry:      func() Timers { return NewEntry() },
	Handle:     newHandle,
	Std:        newStd,
	RussellLuo: newRussellLuo,
}

// New starts the peer of that name.
func New(name string) Timers { return peers[name]() }

func nothing() {}

// callbacks returns the function of each slot: one shared function, or a closure made when it is asked for.
func callbacks(fired func(i int)) func(i int) func() {
	if fired == nil {
		return func(int) func() { return nothing }
	}
	return func(i int) func() { return func() { fired(i) } }
}
