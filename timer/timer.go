package timer

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Timer is a [SystemTimer] or a [ManualTimer], whose methods say more. It is safe for concurrent use. No method
// blocks.
type Timer interface {
	// Now returns the time since the timer's start.
	Now() time.Duration

	// AddAt and Cancel schedule and cancel an entry.
	AddAt(task *TaskEntry, now, deadline time.Duration) error
	Cancel(task *TaskEntry) bool

	// core keeps other packages from implementing Timer.
	core() *store
}

// Entries has the methods of a Timer on entries, for package purgatory: arguments of calls through an interface
// would be allocated.
type Entries = store

// EntriesOf returns the entries of t.
func EntriesOf(t Timer) *Entries { return t.core() }

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
