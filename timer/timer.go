package timer

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Timer is a [SystemTimer] or a [ManualTimer]. It is safe for concurrent use.
type Timer interface {
	// Now returns the time since the timer's start.
	Now() time.Duration

	// Entries returns what has the other methods.
	Entries() *Entries
}

// Entries has the methods of a [ManualTimer], which a [SystemTimer] has, too. It is no interface: arguments of calls
// through one would be allocated.
type Entries = store

// Errors of this package, for [errors.Is].
var (
	ErrInvalid = errors.New("timer: invalid argument")
	ErrStopped = errors.New("timer: stopped")
	ErrFull    = errors.New("timer: too many pending entries")

	errScheduled = fmt.Errorf("%w: the entry is scheduled already", ErrInvalid)
)

// Never is the latest deadline. No clock reaches it.
const Never = time.Duration(math.MaxInt64 - 1)

// Deadline returns now+timeout. A negative timeout counts as 0, and the result is at most [Never].
func Deadline(now, timeout time.Duration) time.Duration {
	d := now + max(timeout, 0)
	if d < now || d > Never { // overflow
		return Never
	}
	return d
}

// within clamps d to the deadlines that a scheduled entry can have, 1 ns to Never.
func within(d time.Duration) int64 { return max(int64(min(d, Never)), 1) }
