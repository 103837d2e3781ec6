package future

import (
	"errors"
	"fmt"
)

// MaxSources is the largest number of sources of one future.
const MaxSources = 1 << 16

// ErrInvalidCondition means that a condition wants less than one result, or more results
// than there are sources, or that it has more than [MaxSources] sources.
var ErrInvalidCondition = errors.New("future: invalid condition")

// Condition says how many results a future wants, and from how many sources. [All],
// [Any] and [Quorum] make one; [Gather] and [GatherFunc] return [ErrInvalidCondition] if
// it is not valid. Its zero value is not valid.
type Condition struct{ want, sources int }

// All wants a result from each of n sources.
func All(n int) Condition { return Quorum(n, n) }

// Any wants one result, from any of n sources.
func Any(n int) Condition { return Quorum(1, n) }

// Quorum wants results from k of n sources, 1 <= k <= n <= [MaxSources]. The future ends
// with the first k results.
func Quorum(k, n int) Condition { return Condition{want: k, sources: n} }

// String returns, for example, "2 of 3".
func (c Condition) String() string { return fmt.Sprintf("%d of %d", c.want, c.sources) }

func (c Condition) validate() error {
	if c.want < 1 || c.want > c.sources || c.sources > MaxSources {
		return fmt.Errorf("%w: %v results, must be k of n with 1 <= k <= n <= %d", ErrInvalidCondition, c, MaxSources)
	}
	return nil
}

// met reports whether so many results without an error are enough.
func (c Condition) met(arrived int) bool { return arrived >= c.want }

// unreachable reports whether too few sources are left after so many failures.
func (c Condition) unreachable(failed int) bool { return failed > c.sources-c.want }
