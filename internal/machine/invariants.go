//go:build invariants

package machine

import "github.com/delayedop/purgatory/internal/invariants"

// assertHeld asserts that word is that of an operation with a holder: only the holder lets go of it, or ends it.
func assertHeld(word uint64) {
	invariants.Assert(word&phaseMask == phaseBusy, "who releases or ends an operation is its holder")
}
