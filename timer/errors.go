package timer

import "errors"

// Errors of this package, for [errors.Is]. The text of a returned error names the value
// that was refused.
var (
	ErrInvalidOption = errors.New("timer: invalid option")
	ErrStopped       = errors.New("timer: stopped")
	ErrFull          = errors.New("timer: too many pending entries")
	ErrScheduled     = errors.New("timer: entry is scheduled already")
	ErrNoTask        = errors.New("timer: entry is bound to no task")
	ErrForeign       = errors.New("timer: entry belongs to another timer")
)
