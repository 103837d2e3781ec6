package future

import (
	"errors"
	"fmt"
	"strings"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// ErrUnreachable says that so many sources have failed that the rest are too few.
var ErrUnreachable = errors.New("future: the results wanted can no longer arrive")

// maxNamed is how many failures the text of an error names; errors.Is finds all.
const maxNamed = 3

// unmet is the error of a future that has ended without the results that it wanted.
type unmet struct {
	reason    error
	condition Condition
	arrived   int
	failures  []error
}

func (u *unmet) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v (wanted %v results, arrived %d, failed %d)", u.reason, u.condition, u.arrived, len(u.failures))
	for i, failure := range u.failures {
		if i == maxNamed {
			fmt.Fprintf(&b, "; and %d more", len(u.failures)-i)
			break
		}
		b.WriteString("; " + failure.Error())
	}
	return b.String()
}

func (u *unmet) Unwrap() []error { return append([]error{u.reason}, u.failures...) }

func (g *gathering[V]) unmetLocked(reason error) error {
	u := &unmet{reason: reason, condition: g.condition, arrived: len(g.mu.results) - g.mu.failed}
	for _, r := range g.mu.results {
		if r.Err != nil {
			u.failures = append(u.failures, fmt.Errorf("source %d: %w", r.From, r.Err))
		}
	}
	return u
}

// reason is why the operation has ended, where no delivery has ended it.
func (g *gathering[V]) reason() error {
	switch g.Outcome() {
	case operation.Expired:
		return fmt.Errorf("%w after %v", purgatory.ErrExpired, g.timeout)
	case operation.Cancelled:
		if cause := g.Cause(); cause != nil {
			return cause
		}
		return purgatory.ErrCancelled
	default:
		return purgatory.ErrClosed
	}
}
