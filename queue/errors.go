package queue

import (
	"errors"
	"fmt"
	"strings"

	"github.com/delayedop/purgatory/operation"
)

// Errors, for errors.Is. Those that have the names of errors of package purgatory are the same.
var (
	// ErrExpired: the timeout has passed. It is a net.Error whose Timeout method returns true, and errors.Is reports that
	// it is context.DeadlineExceeded.
	ErrExpired = operation.ErrExpired
	// ErrStale: the request has waited for longer than WithMaxAge allows.
	ErrStale = errors.New("queue: waited too long")
	// ErrFull: as many wait as WithMaxWaiting allows, of all or of this tenant, or as many units are kept as WithMaxItems
	// allows, or the timer holds as many entries as it may.
	ErrFull = operation.ErrFull
	// ErrClosed: the queue was closed or is shutting down, or its timer has stopped.
	ErrClosed = operation.ErrClosed
	// ErrCancelled: Stop has ended the wait.
	ErrCancelled = operation.ErrCancelled
	// ErrInvalid: an option or an argument is out of its range.
	ErrInvalid = errors.New("queue: invalid")
)

// failure is one of the errors above, and what it is about. It is formatted when somebody reads it: it is made with the
// lock held.
type failure struct {
	kind  error
	about string
	args  []any
}

func fail(kind error, about string, args ...any) error { return &failure{kind, about, args} }

func (f *failure) Unwrap() error { return f.kind }

func (f *failure) Error() string {
	_, kind, _ := strings.Cut(f.kind.Error(), ": ")
	return "queue: " + kind + ": " + fmt.Sprintf(f.about, f.args...)
}

// How a wait ends.
var (
	errExpired   = fail(ErrExpired, "nothing came in time")
	errStale     = fail(ErrStale, "longer than WithMaxAge allows")
	errCancelled = fail(ErrCancelled, "by Stop")
	errClosed    = fail(ErrClosed, "by Close or Shutdown")
	errGone      = errors.New("queue: the context has ended") // stands for its cause, which is user code and read without the lock
)
