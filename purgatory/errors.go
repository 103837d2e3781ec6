package purgatory

import (
	"errors"
	"fmt"
)

// Errors, for errors.Is. What is returned names the purgatory and the offending
// value.
var (
	// ErrClosed: the purgatory is closed, or is shutting down.
	ErrClosed = errors.New("purgatory: closed")
	// ErrFull: as many operations are pending as WithMaxPending allows.
	ErrFull = errors.New("purgatory: full")
	// ErrNoKeys: an operation was to be watched under no key.
	ErrNoKeys = errors.New("purgatory: no keys")
	// ErrTooManyKeys: more keys than operation.MaxKeys.
	ErrTooManyKeys = errors.New("purgatory: too many keys")
	// ErrNilOperation: the operation, or the function to wait for, is nil.
	ErrNilOperation = errors.New("purgatory: nil operation")
	// ErrUsed: the operation was submitted before. Each is used once.
	ErrUsed = errors.New("purgatory: operation used twice")
	// ErrInvalidOption: an option of New is out of its range.
	ErrInvalidOption = errors.New("purgatory: invalid option")
	// ErrCancelled: Await was cancelled, and no cause given.
	ErrCancelled = errors.New("purgatory: cancelled")
	// ErrExpired: Await's timeout passed.
	ErrExpired = errors.New("purgatory: timed out")
)

func (p *DelayedOperationPurgatory[K]) errorf(err error, format string, args ...any) error {
	return fmt.Errorf("%w: purgatory %q: %s", err, p.name, fmt.Sprintf(format, args...))
}
