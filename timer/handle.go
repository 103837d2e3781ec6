package timer

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/entry"
)

// Handle stands for a scheduled function. It is safe for concurrent use, by the function too.
type Handle struct {
	task   TaskEntry // bound to a function
	timer  *store
	period time.Duration // > 0: fixed rate; < 0: fixed delay; 0: it runs once
}

var _ [-unsafe.Offsetof(Handle{}.task)]struct{} // fails to compile unless task is the first field

// function is the task of a Handle.
type function func()

// handleOf returns the Handle of e, which is bound to a function. The conversion is safe: task is its first field.
func handleOf(e *TaskEntry) *Handle { return (*Handle)(unsafe.Pointer(e)) }

// RunTask implements [Task].
func (f function) RunTask(e *TaskEntry) {
	h := handleOf(e)
	if h.period != 0 {
		if h.Cancelled() { // after a worker had claimed e
			return
		}
		defer h.again() // also after a panic, or runtime.Goexit
	}
	f()
}

// AfterFunc runs f as a [Task] when d has passed. Errors: [ErrInvalid] (f is nil), [ErrFull], [ErrStopped].
func (t *store) AfterFunc(d time.Duration, f func()) (*Handle, error) { return t.start(d, 0, 1, f) }

// ScheduleAtFixedRate runs f after first, and then every period, counted from when the previous run was due.
// Runs never overlap; those that are late follow one after the other. Errors: [ErrInvalid] (period is not positive, or
// f is nil), [ErrFull], [ErrStopped].
func (t *store) ScheduleAtFixedRate(first, period time.Duration, f func()) (*Handle, error) {
	return t.start(first, period, period, f)
}

// ScheduleWithFixedDelay runs f after first, and then delay after each run has ended. Errors: as
// ScheduleAtFixedRate.
func (t *store) ScheduleWithFixedDelay(first, delay time.Duration, f func()) (*Handle, error) {
	return t.start(first, -delay, delay, f)
}

// start schedules f. period is that of the Handle, and given the caller's, which must be positive.
func (t *store) start(first, period, given time.Duration, f func()) (*Handle, error) {
	switch {
	case given <= 0:
		return nil, fmt.Errorf("%w: the period is %v, must be positive", ErrInvalid, given)
	case f == nil:
		return nil, fmt.Errorf("%w: the function is nil", ErrInvalid)
	}
	h := &Handle{timer: t, period: period} // see docs/internals/decisions.md#a-handle-is-an-allocation
	h.task.Bind(function(f))
	now := t.Here()
	if err := t.AddAt(&h.task, now, Deadline(now, first)); err != nil {
		return nil, err
	}
	return h, nil
}

// again schedules the next run, unless h or its timer was stopped meanwhile.
func (h *Handle) again() {
	t, e := h.timer, &h.task.entry
	now := t.clock.read()
	s := t.lock(e)
	if t.stopped.Load() || e.At == entry.ExpiredBit {
		e.At = entry.ExpiredBit
		s.mu.Unlock()
		return
	}
	next := Deadline(now, -h.period)
	if due := e.Deadline(); h.period > 0 {
		if due == 1 && h.period > 1 { // an entry has 1 ns for time 0
			due = 0
		}
		next = Deadline(due, h.period)
	}
	t.countLocked(s)
	t.insert(s, e, now, next)
}

// Stop prevents further runs, waits for none, and reports whether it prevented one: then h is [Handle.Cancelled].
func (h *Handle) Stop() bool {
	t, e := h.timer, &h.task.entry
	s := t.lock(e)
	defer s.mu.Unlock()
	if !t.cancelLocked(s, e) && (h.period == 0 || e.At == entry.ExpiredBit) {
		return false
	}
	e.At = entry.ExpiredBit // also of a periodic one between two runs, for again
	return true
}

// Extend moves the next run of a pending handle to d from now and reports whether it came in time. Otherwise, and
// during a periodic run, it does nothing.
func (h *Handle) Extend(d time.Duration) bool {
	return h.timer.Extend(&h.task, Deadline(h.timer.Here(), d))
}

// Reset moves the deadline of a pending handle to d from now and returns true. Otherwise it schedules the
// function again, but no periodic one, and returns false, as [time.Timer.Reset] does.
//
// Errors: [ErrFull], [ErrStopped].
func (h *Handle) Reset(d time.Duration) (pending bool, err error) {
	if pending = h.Extend(d); pending || h.period != 0 {
		return pending, nil
	}
	now := h.timer.Here()
	err = h.timer.AddAt(&h.task, now, Deadline(now, d))
	if errors.Is(err, errScheduled) { // by another Reset, meanwhile
		return h.Reset(d)
	}
	return false, err
}

// Expired reports whether the function has run, is running, or is about to run, and will not run again.
func (h *Handle) Expired() bool {
	s := h.timer.lock(&h.task.entry)
	defer s.mu.Unlock()
	at := h.task.entry.At
	return at < 0 && at != entry.ExpiredBit && h.period == 0
}

// Cancelled reports whether h was stopped before it ran; if it is periodic, whether it was stopped.
func (h *Handle) Cancelled() bool { return h.timer.DeadlineOf(&h.task) == 0 }
