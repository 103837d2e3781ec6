package future

import (
	"errors"
	"fmt"
	"strings"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// ErrUnreachable means that so many sources have failed that the others cannot deliver
// the wanted number of results. The error that [Future.Wait] returns wraps it together
// with the errors of these sources.
var ErrUnreachable = errors.New("future: the results wanted can no longer arrive")

// maxNamed is the number of failures that the text of an error names. errors.Is finds
// all of them.
const maxNamed = 3

// unmet is the error of a future that has ended without the results that it wanted. It
// wraps the reason and the failures of the sources.
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

// failure is the error of a source. It has no text until somebody asks for it: the text of err is code of the user's, which may
// call the future.
type failure struct {
	from int
	err  error
}

func (f *failure) Error() string { return fmt.Sprintf("source %d: %v", f.from, f.err) }
func (f *failure) Unwrap() error { return f.err }

func (g *gathering[V]) unmetLocked(reason error) error {
	u := &unmet{reason: reason, condition: g.condition, arrived: len(g.mu.results) - g.mu.failed}
	for _, r := range g.mu.results {
		if r.Err != nil {
			u.failures = append(u.failures, &failure{r.From, r.Err})
		}
	}
	return u
}

// reason returns why the operation has ended, if no delivery has decided the future.
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
