//go:build invariants

// Package invariants is for a build with the tag invariants: there the library asserts, at each point at which a lock
// is released or an operation changes hands, what has to hold then. Without the tag these calls are empty, and
// the package is not built.
package invariants

import (
	"fmt"
	"os"
	"runtime/debug"
)

// Broken is called if an invariant does not hold, perhaps with a lock held. A test that has to say in which run it
// was may set it before the library is used.
var Broken = func(what string) {
	fmt.Fprintf(os.Stderr, "broken invariant: %s\n%s", what, debug.Stack())
	os.Exit(2)
}

// Assert calls Broken unless ok.
func Assert(ok bool, what string) {
	if !ok {
		Broken(what)
	}
}

// Few is how many elements an assertion looks at, at most: what has more is passed over.
const Few = 64
