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
	// Close stops the peer. Pending timers are lost or stopped, as the peer has it.
	Close()
}

// Slots is room for timers, used by one goroutine at a time.
type Slots interface {
	Add(i int, d time.Duration)
	Cancel(i int)
}

// Peer names a timer and makes a fresh one.
type Peer struct {
	Name string
	New  func() Timers
	// Main marks the peers of the short lists: ours, the standard library, and the heap.
	Main bool
}

// Names of the peers that targets refer to.
const (
	Std    = "std"
	Heap   = "heap"
	Entry  = "ours-entry"
	Handle = "ours-handle"

	Alone = "std-alone" // Std as the reference of an operation's life, beside which nothing is kept
)

// Peers lists every timer that is compared, ours first.
func Peers() []Peer {
	return []Peer{
		{Name: Entry, New: func() Timers { return NewEntry() }, Main: true},
		{Name: Handle, New: newHandle, Main: true},
		{Name: Std, New: newStd, Main: true},
		{Name: Heap, New: newHeap, Main: true},
		{Name: "russellluo", New: newRussellLuo},
	}
}

// ByName returns one peer.
func ByName(name string) Peer {
	for _, p := range Peers() {
		if p.Name == name {
			return p
		}
	}
	panic("no timer named " + name)
}

func nothing() {}

// callbacks returns the function of each slot: one shared function, or a closure made when it is asked for.
func callbacks(fired func(i int)) func(i int) func() {
	if fired == nil {
		return func(int) func() { return nothing }
	}
	return func(i int) func() { return func() { fired(i) } }
}
