//go:build invariants

package machine

import (
	"unsafe"

	"github.com/delayedop/purgatory/internal/invariants"
)

// assertHeld asserts that word is that of an operation with a holder: only the holder lets go of it, or ends it.
func assertHeld(word uint64) {
	invariants.Assert(word&phaseMask == phaseBusy, "who releases or ends an operation is its holder")
}

// assertOver asserts what who polls the outcome may rely on as soon as it is there: that of m is about to be stored. The fields are plain,
// so a scheduler of atomics does not come between.
func (m *Machine) assertOver(outcome Outcome, cause *error) {
	var tail unsafe.Pointer
	if outcome == Cancelled {
		tail = unsafe.Pointer(cause)
	}
	invariants.Assert(m.tail == tail, "who sees that an operation was cancelled sees its cause, and that of no other one")
	invariants.Assert(!m.entry.Linked(), "an operation that has ended has left the timer")
}
