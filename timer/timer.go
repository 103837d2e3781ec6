package timer

import (
	"errors"
	"math"
	"time"
)

// Timer is a [SystemTimer] or a [ManualTimer]. Its methods are safe for concurrent use. AdvanceClock and
// AdvanceClockUntil of a SystemTimer wait, and those of a ManualTimer run tasks; the other methods do not
// block.
type Timer interface {
	// Now returns the time since the timer's start, on its monotonic clock.
	Now() time.Duration

	// AddAt and Cancel schedule and cancel entries. An entry belongs to the timer to which it was added last.
	// While another timer has it scheduled, AddAt returns ErrScheduled; the others change no entry of another
	// timer.
	AddAt(task *TaskEntry, now, deadline time.Duration) error
	Cancel(task *TaskEntry) bool

	// DeadlineOf returns the time, on the timer's clock, at which an entry expires or has expired; 0 if it was
	// never added, was cancelled, or belongs to another timer.
	DeadlineOf(task *TaskEntry) time.Duration

	// AdvanceClock lets up to d of time pass and reports whether anything expired. A SystemTimer waits for
	// that time; a ManualTimer moves its clock.
	AdvanceClock(d time.Duration) bool

	// AdvanceClockUntil is AdvanceClock that stops waiting and returns false when stop, which may be nil, is
	// closed.
	AdvanceClockUntil(stop <-chan struct{}, d time.Duration) bool

	// Pending returns the number of entries that are scheduled.
	Pending() int

	// core is what both kinds share. Being unexported, it keeps other packages from implementing Timer.
	core() *store
}

// Entries has the methods that schedule and cancel entries. Package purgatory calls these directly: what a call
// through an interface is given would be allocated.
type Entries = store

// EntriesOf returns the entries of t.
func EntriesOf(t Timer) *Entries { return t.core() }

// Errors of this package, for [errors.Is].
var (
	ErrInvalidOption = errors.New("timer: invalid option")
	ErrStopped       = errors.New("timer: stopped")
	ErrFull          = errors.New("timer: too many pending entries")
	ErrScheduled     = errors.New("timer: entry is scheduled already")
	ErrNoTask        = errors.New("timer: entry is bound to no task")
)

// Never is the latest deadline, 292 years after the timer's start. Later ones saturate to it. No clock reaches
// it.
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
