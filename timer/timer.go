package timer

import "time"

// Timer is what a purgatory needs of a timer: a [SystemTimer], or a [ManualTimer] in a
// test. Its methods are safe for concurrent use. AdvanceClock and AdvanceClockUntil of a
// SystemTimer wait for time to pass, and those of a ManualTimer run tasks; the other
// methods do not block.
type Timer interface {
	// Now returns the time since the timer's start, on its monotonic clock.
	Now() time.Duration

	// AddAt, Cancel, CancelAll and Extend schedule, cancel and move entries. An entry
	// belongs to the timer that first accepted it. For an entry of another timer these
	// methods change nothing and return ErrForeign, false or 0.
	AddAt(task *TaskEntry, now, deadline time.Duration) error
	Cancel(task *TaskEntry) bool
	CancelAll(tasks []*TaskEntry) int
	Extend(task *TaskEntry, deadline time.Duration) bool

	// DeadlineOf returns what [TaskEntry.Deadline] returns, and may be called at any
	// time. It returns 0 for an entry of another timer.
	DeadlineOf(task *TaskEntry) time.Duration

	// AdvanceClock lets up to d of time pass and reports whether anything expired. A
	// SystemTimer waits for that time; a ManualTimer moves its clock.
	AdvanceClock(d time.Duration) bool

	// AdvanceClockUntil is AdvanceClock that stops waiting and returns false when stop
	// is closed. A nil stop means that nothing interrupts it.
	AdvanceClockUntil(stop <-chan struct{}, d time.Duration) bool

	// Pending returns the number of entries that are scheduled.
	Pending() int

	// core is for Inspect and Due. Being unexported, it also keeps other packages from
	// implementing Timer, so that methods can be added to it.
	core() *store
}
