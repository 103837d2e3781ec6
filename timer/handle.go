package timer

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/sched"
)

// State is the state of a [Handle].
type State uint8

// States of a Handle.
const (
	Pending   State = iota // will run, or run again
	Expired                // has run, is running, or is about to run
	Cancelled              // was stopped before it ran; a periodic handle: was stopped
)

// String returns the name of s.
func (s State) String() string { return [...]string{"pending", "expired", "cancelled"}[s] }

// Handle stands for a scheduled function. It is safe for concurrent use, by the function too.
type Handle struct {
	task   TaskEntry   // bound to a function
	period sched.Int64 // in ns; > 0: fixed rate; < 0: fixed delay; 0: it runs once
}

// halted is the period of a periodic handle that was stopped, or whose timer was.
const halted = math.MinInt64

var _ [-unsafe.Offsetof(Handle{}.task)]struct{} // fails to compile unless task is the first field

// function is the task of a Handle.
type function func()

// handleOf returns the Handle of e, which is bound to a function. The conversion is safe: task is its first
// field.
func handleOf(e *TaskEntry) *Handle { return (*Handle)(unsafe.Pointer(e)) }

// RunTask implements [Task].
func (f function) RunTask(e *TaskEntry) {
	h := handleOf(e)
	if h.periodic() {
		// Deferred, so that a run that panics or calls runtime.Goexit is not the last one.
		defer h.again(e.entry.Deadline())
		if h.halted() {
			return
		}
	}
	f()
}

func (h *Handle) timer() *store  { return h.task.owner.Load() }
func (h *Handle) periodic() bool { return h.period.Load() != 0 }
func (h *Handle) halted() bool   { return h.period.Load() == halted }

// halt halts a periodic handle, and reports whether it was not halted before.
func (h *Handle) halt() bool { return h.period.Swap(halted) != halted }

// AfterFunc runs f as a [Task] when d has passed. It does not block.
//
// Errors: [ErrNoTask] (f is nil), [ErrFull], [ErrStopped].
func (t *store) AfterFunc(d time.Duration, f func()) (*Handle, error) { return t.start(d, 0, f) }

// ScheduleAtFixedRate runs f after first, and then every period, counted from when the previous run was due.
// Runs never overlap; those that are late follow one after the other.
//
// Errors: [ErrInvalidOption] (period is not positive), [ErrNoTask] (f is nil), [ErrFull], [ErrStopped].
func (t *store) ScheduleAtFixedRate(first, period time.Duration, f func()) (*Handle, error) {
	return t.startPeriodic(first, period, 1, f)
}

// ScheduleWithFixedDelay runs f after first, and then delay after each run has ended. Errors: as
// ScheduleAtFixedRate.
func (t *store) ScheduleWithFixedDelay(first, delay time.Duration, f func()) (*Handle, error) {
	return t.startPeriodic(first, delay, -1, f)
}

func (t *store) startPeriodic(first, period, sign time.Duration, f func()) (*Handle, error) {
	if period <= 0 {
		return nil, fmt.Errorf("%w: the period is %v, must be positive", ErrInvalidOption, period)
	}
	return t.start(first, sign*period, f)
}

func (t *store) start(first, period time.Duration, f func()) (*Handle, error) {
	if f == nil {
		return nil, fmt.Errorf("%w: the function is nil", ErrNoTask)
	}
	h := &Handle{} // see docs/internals/decisions.md#a-handle-is-an-allocation
	h.period.Store(int64(period))
	h.task.Bind(function(f))
	h.task.owner.Store(t)
	now := t.Here()
	if err := t.AddAt(&h.task, now, Deadline(now, first)); err != nil {
		return nil, err
	}
	return h, nil
}

// again schedules the run after the one that was due then. An entry has 1 ns for time 0.
func (h *Handle) again(due time.Duration) {
	period := time.Duration(h.period.Load())
	if period == halted {
		return
	}
	t := h.timer()
	now := t.clock.Now()
	if due == 1 && period > 1 {
		due = 0
	}
	next := Deadline(due, period)
	if period < 0 {
		next = Deadline(now, -period)
	}
	if t.add(&h.task, now, next, math.MaxInt64) != nil {
		h.halt() // the timer has been stopped
	}
	// A Stop may have come before the entry was added.
	if h.halted() {
		t.Cancel(&h.task)
	}
}

// Stop prevents further runs and reports whether it prevented one: then [Handle.State] changes to Cancelled. It
// does not wait for a run in progress.
func (h *Handle) Stop() bool {
	if !h.periodic() {
		return h.timer().Cancel(&h.task)
	}
	if !h.halt() {
		return false
	}
	h.timer().Cancel(&h.task) // if it fails, a worker has claimed the entry, and finds halted
	return true
}

// Extend moves the next run of a pending handle to d from now and reports whether it came in time. Otherwise, or
// while a periodic run is in progress, it does nothing.
func (h *Handle) Extend(d time.Duration) bool {
	return h.extend(Deadline(h.timer().Here(), d))
}

// extend leaves a halted handle alone, whose entry may be scheduled for a moment: see again.
func (h *Handle) extend(deadline time.Duration) bool {
	return !h.halted() && h.timer().Extend(&h.task, deadline)
}

// Reset moves the deadline of a pending handle to d from now and returns true. Otherwise it schedules the
// function again, but no periodic one, and returns false, as [time.Timer.Reset] does.
//
// Errors: [ErrFull], [ErrStopped].
func (h *Handle) Reset(d time.Duration) (pending bool, err error) {
	for {
		now := h.timer().Here()
		deadline := Deadline(now, d)
		if h.extend(deadline) {
			return true, nil
		}
		if h.periodic() {
			return false, nil
		}
		err := h.timer().AddAt(&h.task, now, deadline)
		if !errors.Is(err, ErrScheduled) {
			return false, err
		}
		// Another Reset has scheduled the entry: extend it.
	}
}

// State returns the state of h.
func (h *Handle) State() State {
	s := h.timer().lock(&h.task.entry)
	d := h.task.entry.At
	s.mu.Unlock()
	switch {
	case d == 0, h.halted():
		return Cancelled
	case d > 0, h.periodic():
		return Pending
	}
	return Expired
}
