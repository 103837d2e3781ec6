//go:build invariants

// Package invariants is for a build with the tag invariants: there the library asserts, whenever a lock is released or an
// operation changes hands, what has to hold then. Without the tag the calls are empty, and this package is not built.
package invariants

import (
	"log"
	"runtime/debug"
)

// Broken is called if an invariant does not hold, perhaps with a lock held. A test that has to say in which run it
// was may set it before the library is used.
var Broken = func(what string) { log.Fatalf("broken invariant: %s\n%s", what, debug.Stack()) }

// Assert calls Broken unless ok.
func Assert(ok bool, what string) {
	if !ok {
		Broken(what)
	}
}
