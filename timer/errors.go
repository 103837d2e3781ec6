package timer

import (
	"errors"
	"fmt"
)

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

func fullError(limit int64) error { return fmt.Errorf("%w: the maximum is %d", ErrFull, limit) }

func foreignError(theirs, ours uint32) error {
	return fmt.Errorf("%w: it was added to timer %d, and this is timer %d", ErrForeign, theirs, ours)
}
