package timer

import (
	"errors"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/identity"
)

// State is the state of a [Handle].
type State uint8

// States of a Handle.
const (
	Pending   State = iota // will run; a periodic handle: will run again
	Expired                // has run, is running, or is about to run
	Cancelled              // was stopped before it ran; a periodic handle: was stopped
)

// String returns "pending", "expired" or "cancelled".
func (s State) String() string { return [...]string{"pending", "expired", "cancelled"}[s] }

// Handle stands for a scheduled function. It is safe for concurrent use, by the function too. It takes 64
// bytes.
type Handle struct {
	task TaskEntry // bound to a once or a periodic, which is or contains the Handle
	f    func()
}

// once is a Handle whose function runs once. The type hides the method of a [Task] from the user.
type once Handle

// RunTask implements [Task].
func (o *once) RunTask(*TaskEntry) { o.f() }

// periodic is a Handle whose function runs repeatedly.
type periodic struct {
	Handle
	period time.Duration // > 0: fixed rate; < 0: fixed delay of -period
	atZero bool          // the next run is due at time 0, although AddAt takes 0 for 1 ns
}

// haltedBit is set in the entry's word after a periodic handle was stopped, or its timer.
const haltedBit = identity.Half + 1

func (h *Handle) halted() bool { return h.task.entry.Word.Load()&haltedBit != 0 }

func (h *Handle) timer() *store { return h.task.owner.Load() }

// halt sets the bit and reports whether it was not set before.
func (h *Handle) halt() bool { return h.task.entry.Word.Or(haltedBit)&haltedBit == 0 }

func (h *Handle) periodic() *periodic {
	p, _ := h.task.bound.(*periodic)
	return p
}

func (t *store) start(h *Handle, task Task, first time.Duration) (*Handle, error) {
	if h.f == nil {
		return nil, fmt.Errorf("%w: the function is nil", ErrNoTask)
	}
	h.task.Bind(task)
	h.task.owner.Store(t)
	now := t.Here()
	if err := t.AddAt(&h.task, now, Deadline(now, first)); err != nil {
		return nil, err
	}
	return h, nil
}

func (t *store) startPeriodic(first, period, sign time.Duration, f func()) (*Handle, error) {
	if period <= 0 {
		return nil, fmt.Errorf("%w: the period is %v, must be positive", ErrInvalidOption, period)
	}
	p := &periodic{Handle: Handle{f: f}, period: sign * period, atZero: first <= 0 && t.clock.Now() == 0}
	return t.start(&p.Handle, p, first)
}

// AfterFunc runs f when d has passed: a [SystemTimer] on one of its workers, a [ManualTimer] inside the
// AdvanceClock that lets d pass. It does not block.
//
// Errors: [ErrNoTask] (f is nil), [ErrFull], [ErrStopped].
func (t *store) AfterFunc(d time.Duration, f func()) (*Handle, error) {
	h := &Handle{f: f} // see docs/internals/decisions.md#a-handle-is-an-allocation
	return t.start(h, (*once)(h), d)
}

// ScheduleAtFixedRate runs f after first, and then every period: each run is due one period after the previous
// one was due. Runs never overlap; those that are late follow one after the other.
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

// RunTask runs the function, and schedules the next run.
func (p *periodic) RunTask(*TaskEntry) {
	// Deferred, so that a run that panics or calls runtime.Goexit is not the last one.
	defer p.again(p.task.entry.Deadline())
	if !p.halted() {
		p.f()
	}
}

func (p *periodic) again(due time.Duration) {
	if p.halted() {
		return
	}
	now := p.timer().clock.Now()
	if p.atZero && due == 1 {
		due = 0
	}
	p.atZero = false
	next := Deadline(due, p.period)
	if p.period < 0 {
		next = Deadline(now, -p.period)
	}
	if p.timer().AddAt(&p.task, now, next) != nil {
		p.halt() // the timer has been stopped
	}
	// A Stop that was called meanwhile may have come before the entry was added.
	if p.halted() {
		p.timer().Cancel(&p.task)
	}
}

// Stop prevents further runs of the function and reports whether it prevented one: not if a function that runs
// once has run or is about to, or the handle was stopped before. It does not wait for a run in progress.
func (h *Handle) Stop() bool {
	if h.periodic() == nil {
		return h.timer().Cancel(&h.task)
	}
	if !h.halt() {
		return false
	}
	h.timer().Cancel(&h.task) // if it fails, a worker has claimed the entry, and finds halted
	return true
}

// Extend moves the deadline of a pending handle, or the next run of a periodic one, to d from now and reports
// whether it came in time. Otherwise, or while a periodic run is in progress, it does nothing.
func (h *Handle) Extend(d time.Duration) bool {
	return h.extend(Deadline(h.timer().Here(), d))
}

// extend leaves a periodic handle alone that was stopped: its entry may be scheduled for a moment, see again.
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
		if h.periodic() != nil {
			return false, nil
		}
		err := h.timer().AddAt(&h.task, now, deadline)
		if !errors.Is(err, ErrScheduled) {
			return false, err
		}
		// Another Reset has scheduled the entry meanwhile: extend it.
	}
}

// State returns the state of h.
func (h *Handle) State() State {
	s := h.timer().lock(&h.task.entry)
	d := h.task.entry.At
	s.mu.Unlock()
	switch {
	case d == entry.Cancelled, h.halted():
		return Cancelled
	case d > 0, h.periodic() != nil:
		return Pending
	default:
		return Expired
	}
}
