package timer

import "time"

// Timer is what a purgatory needs of a timer: a SystemTimer, or a ManualTimer in
// a test. Its methods are safe for concurrent use, and all but AdvanceClock
// return at once.
type Timer interface {
	// Now returns the time on the timer's clock: monotonic, since its start.
	Now() time.Duration

	// AddAt, Cancel, CancelAll and Extend schedule and unschedule entries.
	AddAt(e *TaskEntry, now, deadline time.Duration) error
	Cancel(e *TaskEntry) bool
	CancelAll(entries []*TaskEntry) int
	Extend(e *TaskEntry, deadline time.Duration) bool

	// DeadlineOf returns e.Deadline, at any time.
	DeadlineOf(e *TaskEntry) time.Duration

	// AdvanceClock lets up to d of time pass and reports whether anything
	// expired. A SystemTimer waits; a ManualTimer moves its clock.
	AdvanceClock(d time.Duration) bool

	// Pending returns the number of entries that are scheduled.
	Pending() int

	// sealed: the two timers of this package are all there are. Their wheels
	// may change without breaking anybody.
	sealed()
}

var (
	_ Timer = (*SystemTimer)(nil)
	_ Timer = (*ManualTimer)(nil)
)

func (t *store) sealed() {}
