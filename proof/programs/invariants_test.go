//go:build interleave && invariants

package programs

import (
	"fmt"
	"os"
	"sync"

	"github.com/delayedop/purgatory/internal/invariants"
)

// A panic fails the run, which says its seed. Where a method of an operation has it, the library recovers it, and the run
// may end in another way: so the first one is printed.
func init() {
	var first sync.Once
	invariants.Broken = func(what string) {
		first.Do(func() { fmt.Fprintln(os.Stderr, "broken invariant:", what) })
		panic("broken invariant: " + what)
	}
}
