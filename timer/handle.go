package timer

import (
	"errors"
	"fmt"
	"time"
)

// State is where a Handle stands.
type State uint8

// States of a Handle.
const (
	Pending   State = iota // will run, or (periodic) will run again
	Expired                // has run, or is about to
	Cancelled              // stopped before it ran, or (periodic) before it ran again
)

// String is "pending", "expired" or "cancelled".
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Expired:
		return "expired"
	case Cancelled:
		return "cancelled"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Handle is a function's place in a timer, as AfterFunc and the Schedule
// methods return it. It is safe for concurrent use, from its own function too.
// It takes 64 bytes, one cache line.
type Handle struct {
	entry TaskEntry // bound to the Handle, or to the periodic that it is part of
	timer *store
	f     func()
}

// periodic is a Handle whose function runs again and again.
type periodic struct {
	Handle
	period time.Duration // > 0: fixed rate; < 0: fixed delay of -period
}

// halted is the value of a handle's word once a periodic one has been stopped.
const halted = 1

// periodic returns what h is part of, nil if its function runs once.
func (h *Handle) periodic() *periodic {
	p, _ := h.entry.task.(*periodic)
	return p
}

// start schedules h, whose entry is bound to task.
func (t *store) start(h *Handle, task Task, first time.Duration) (*Handle, error) {
	if h.f == nil {
		return nil, fmt.Errorf("%w: the function is nil", ErrNoTask)
	}
	h.timer = t
	h.entry.Bind(task)
	now := t.now()
	if err := t.AddAt(&h.entry, now, Deadline(now, first)); err != nil {
		return nil, err
	}
	return h, nil
}

func (t *store) startOnce(d time.Duration, f func()) (*Handle, error) {
	h := &Handle{f: f}
	return t.start(h, h, d)
}

func (t *store) startPeriodic(first, period, sign time.Duration, f func()) (*Handle, error) {
	if period <= 0 {
		return nil, fmt.Errorf("%w: the period is %v, must be positive", ErrInvalidOption, period)
	}
	p := &periodic{Handle: Handle{f: f}, period: sign * period}
	return t.start(&p.Handle, p, first)
}

// AfterFunc runs f on a worker once d has passed. Errors: ErrFull, ErrStopped.
func (t *SystemTimer) AfterFunc(d time.Duration, f func()) (*Handle, error) {
	return t.startOnce(d, f)
}

// AfterFunc runs f inside the AdvanceClock that lets d pass. Errors: ErrFull,
// ErrStopped.
func (t *ManualTimer) AfterFunc(d time.Duration, f func()) (*Handle, error) {
	return t.startOnce(d, f)
}

// ScheduleAtFixedRate runs f after first and then every period, counted from
// when each run was due, however long it took. Runs of one handle never overlap;
// those that a slow f or a stall made impossible are made up for, one after the
// other. Errors: ErrInvalidOption (period not positive), ErrFull, ErrStopped.
func (t *SystemTimer) ScheduleAtFixedRate(first, period time.Duration, f func()) (*Handle, error) {
	return t.startPeriodic(first, period, 1, f)
}

// ScheduleAtFixedRate is that of SystemTimer, on the manual clock.
func (t *ManualTimer) ScheduleAtFixedRate(first, period time.Duration, f func()) (*Handle, error) {
	return t.startPeriodic(first, period, 1, f)
}

// ScheduleWithFixedDelay runs f after first and then delay after each run has
// ended. Errors: ErrInvalidOption (delay not positive), ErrFull, ErrStopped.
func (t *SystemTimer) ScheduleWithFixedDelay(first, delay time.Duration, f func()) (*Handle, error) {
	return t.startPeriodic(first, delay, -1, f)
}

// ScheduleWithFixedDelay is that of SystemTimer, on the manual clock.
func (t *ManualTimer) ScheduleWithFixedDelay(first, delay time.Duration, f func()) (*Handle, error) {
	return t.startPeriodic(first, delay, -1, f)
}

// RunTask is the timer's way in. It does nothing for anybody else.
func (h *Handle) RunTask(e *TaskEntry) {
	if e == &h.entry {
		h.f()
	}
}

// RunTask is the timer's way in.
func (p *periodic) RunTask(e *TaskEntry) {
	due := e.Deadline()
	// Deferred: a run that panics or calls runtime.Goexit is not the last.
	defer func() { p.again(due) }()
	if e.word.Load() != halted {
		p.f()
	}
}

// again schedules the next run.
func (p *periodic) again(due time.Duration) {
	if p.entry.word.Load() == halted {
		return
	}
	now := p.timer.now()
	next := Deadline(due, p.period)
	if p.period < 0 {
		next = Deadline(now, -p.period)
	}
	if p.timer.addAgain(&p.entry, now, next) != nil {
		p.entry.word.Store(halted) // the timer has stopped
		return
	}
	if p.entry.word.Load() == halted { // Stop came between: it may not have seen the entry
		p.timer.Cancel(&p.entry)
	}
}

// Stop prevents the function from running (again) and reports whether it did:
// false means that it has run or is about to, or was stopped before. It does not
// wait for a run that is under way.
func (h *Handle) Stop() bool {
	if h.periodic() == nil {
		return h.timer.Cancel(&h.entry)
	}
	if h.entry.word.Swap(halted) == halted {
		return false
	}
	// In a timer that was stopped the entry is cancelled already; if it is neither
	// that nor cancelled here, its function is running for the last time.
	return h.timer.Cancel(&h.entry) || h.timer.DeadlineOf(&h.entry) != 0
}

// Extend moves the deadline of a pending handle to d from now and reports whether
// it was in time; if not, it does nothing. A later deadline costs a clock reading
// and a lock, and leaves the wheel alone. Of a periodic handle it moves the next run,
// unless one is under way.
func (h *Handle) Extend(d time.Duration) bool {
	return h.timer.Extend(&h.entry, Deadline(h.timer.now(), d))
}

// Reset is Extend for a pending handle. One that has run or was stopped is
// scheduled anew, as time.Timer.Reset does it: then it returns false, and the
// earlier run is not undone. A periodic handle that was stopped stays so, and one
// that is running sets its next run itself. Error: ErrFull, ErrStopped.
func (h *Handle) Reset(d time.Duration) (pending bool, err error) {
	for {
		now := h.timer.now()
		deadline := Deadline(now, d)
		if h.timer.Extend(&h.entry, deadline) {
			return true, nil
		}
		if h.periodic() != nil {
			return false, nil
		}
		err := h.timer.AddAt(&h.entry, now, deadline)
		if !errors.Is(err, ErrScheduled) { // scheduled by another Reset: extend that one
			return false, err
		}
	}
}

// State returns where h stands.
func (h *Handle) State() State {
	s := h.timer.shardOf(&h.entry)
	s.mu.Lock()
	d := h.entry.deadline
	s.mu.Unlock()
	switch {
	case d == cancelled, h.entry.word.Load() == halted:
		return Cancelled
	case d > 0, h.periodic() != nil:
		return Pending
	default:
		return Expired
	}
}
