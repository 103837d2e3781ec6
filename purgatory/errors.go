package purgatory

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Errors, for errors.Is. New, a method that refuses an operation, and one whose wait ends
// without its condition return an error that wraps one of these and names the purgatory and
// the offending value. The cause of a context or of a cancellation it returns unchanged.
var (
	// ErrClosed: the purgatory is closed or is shutting down, or its timer has stopped.
	ErrClosed = errors.New("purgatory: closed")
	// ErrFull: as many operations are pending as WithMaxPending allows, or the timer
	// holds as many entries as timer.WithMaxPending allows.
	ErrFull = errors.New("purgatory: full")
	// ErrNoKeys: an operation was submitted with no key.
	ErrNoKeys = errors.New("purgatory: no keys")
	// ErrTooManyKeys: an operation was submitted with more than operation.MaxKeys keys.
	ErrTooManyKeys = errors.New("purgatory: too many keys")
	// ErrNilOperation: the operation, or the function given to Await, is nil.
	ErrNilOperation = errors.New("purgatory: nil operation")
	// ErrUsed: the operation was submitted before. An operation is used once.
	ErrUsed = errors.New("purgatory: operation used twice")
	// ErrInvalidOption: an option of New is out of its range, or contradicts another one.
	ErrInvalidOption = errors.New("purgatory: invalid option")
	// ErrCancelled: CancelForKey or CancelMatching ended an Await with a nil cause, or
	// ForceComplete ended it.
	ErrCancelled = errors.New("purgatory: cancelled")
	// ErrExpired: Await's timeout has passed. It is a net.Error whose Timeout method
	// returns true, as callers of package net expect, and errors.Is reports that it is
	// context.DeadlineExceeded, as gRPC's status.FromContextError expects.
	ErrExpired error = expired{}
)

type expired struct{}

func (expired) Error() string        { return "purgatory: timed out" }
func (expired) Timeout() bool        { return true }
func (expired) Temporary() bool      { return true }
func (expired) Is(target error) bool { return target == context.DeadlineExceeded }

// failure is one of the errors above with a text that says what it is about.
type failure struct {
	text string
	errs []error // one of the errors above, and its causes
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Unwrap() []error { return f.errs }

func (p *DelayedOperationPurgatory[K]) errorf(kind error, format string, args ...any) error {
	return errorf(p.name, kind, format, args...)
}

// errorf returns a failure of the purgatory of that name that wraps kind and the errors
// among args.
func errorf(name string, kind error, format string, args ...any) error {
	what := strings.TrimPrefix(kind.Error(), "purgatory: ")
	f := &failure{fmt.Sprintf("purgatory %q: %s: %s", name, what, fmt.Sprintf(format, args...)), []error{kind}}
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			f.errs = append(f.errs, err)
		}
	}
	return f
}
