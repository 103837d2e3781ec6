package future

import (
	"errors"
	"fmt"
)

// MaxSources is the largest number of sources of one future.
const MaxSources = 1 << 16

// ErrInvalidCondition says that a condition asks for less than one result, or for more
// than there are sources, or that there are more than MaxSources.
var ErrInvalidCondition = errors.New("future: invalid condition")

// Condition says how many results a future wants, and from how many sources. Its zero
// value is not valid.
type Condition struct{ want, sources int }

// All wants a result from each of n sources.
func All(n int) Condition { return Quorum(n, n) }

// Any wants one result, from whichever of n sources is first.
func Any(n int) Condition { return Quorum(1, n) }

// Quorum wants the first k results from n sources, 1 <= k <= n <= MaxSources.
func Quorum(k, n int) Condition { return Condition{want: k, sources: n} }

// String is "2 of 3".
func (c Condition) String() string { return fmt.Sprintf("%d of %d", c.want, c.sources) }

func (c Condition) validate() error {
	if c.want < 1 || c.want > c.sources || c.sources > MaxSources {
		return fmt.Errorf("%w: %v results, must be k of n with 1 <= k <= n <= %d", ErrInvalidCondition, c, MaxSources)
	}
	return nil
}

// met reports whether these are enough results.
func (c Condition) met(arrived int) bool { return arrived >= c.want }

// unreachable reports whether, after these failures, too few sources are left.
func (c Condition) unreachable(failed int) bool { return failed > c.sources-c.want }
