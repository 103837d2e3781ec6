package purgatory

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/delayedop/purgatory/operation"
)

// Errors, for errors.Is: what is returned wraps one of these and names the purgatory and the offending value. The cause
// of a context or of a cancellation is returned unchanged.
var (
	// ErrClosed: the purgatory is closed or is shutting down, or its timer has stopped.
	ErrClosed = operation.ErrClosed
	// ErrFull: as many operations are pending as WithMaxPending allows, or under the first key as
	// WithMaxPendingPerKey allows, or in the timer as timer.WithMaxPending allows.
	ErrFull = operation.ErrFull
	// ErrNoKeys: an operation has no key, or one that is not equal to itself, as a NaN.
	ErrNoKeys = errors.New("purgatory: no keys")
	// ErrNilOperation: the operation, or the function given to Await, is nil.
	ErrNilOperation = errors.New("purgatory: nil operation")
	// ErrUsed: the operation was submitted before.
	ErrUsed = errors.New("purgatory: operation used twice")
	// ErrInvalidOption: an option of New is out of its range, or contradicts another one.
	ErrInvalidOption = errors.New("purgatory: invalid option")
	// ErrCancelled: a nil cause of CancelForKey or Cancel, ForceComplete, or [Wait.Stop] has ended a wait.
	ErrCancelled = operation.ErrCancelled
	// ErrPending: a Wait has not ended.
	ErrPending = errors.New("purgatory: pending")
	// ErrExpired: Await's timeout has passed. It is a net.Error whose Timeout method returns true, and errors.Is
	// reports that it is context.DeadlineExceeded, as gRPC's status.FromContextError expects.
	ErrExpired = operation.ErrExpired
)

// failure is one of the errors above, and what it is about.
type failure struct {
	purgatory   string
	kind, about error
}

func (f *failure) Unwrap() []error { return []error{f.kind, f.about} }

func (f *failure) Error() string {
	return fmt.Sprintf("purgatory %q: %s: %v", f.purgatory, strings.TrimPrefix(f.kind.Error(), "purgatory: "), f.about)
}

// errorf returns a failure that is about what the format says, with %w for the error that is its cause.
func (p *Purgatory[K]) errorf(kind error, format string, args ...any) error {
	return &failure{p.records.Purgatory, kind, fmt.Errorf(format, args...)}
}

// refusal counts an operation that is not accepted, and returns its error.
func (p *Purgatory[K]) refusal(kind error, format string, args ...any) error {
	switch {
	case errors.Is(kind, ErrClosed):
		p.refused.closed.Add(1)
	case errors.Is(kind, ErrFull):
		p.refused.full.Add(1)
	default:
		p.refused.input.Add(1)
	}
	return p.errorf(kind, format, args...)
}

func mustContext(ctx context.Context, method string) {
	if ctx == nil {
		panic("purgatory: " + method + " was called with a nil context: use context.Background()")
	}
}
