//go:build interleave

package programs

import (
	"slices"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
)

// timedTask is an entry of a program of a timer, with its task.
type timedTask struct {
	entry timer.TaskEntry
	r     *timed
	id    int
	plan  *entryPlan

	adds, runs, ends int           // additions; those of them that have run, and that were cancelled or stopped by name
	somebodyEnds     int           // of the first task: those that CancelAll has cancelled, of any task
	adding           int           // additions under way
	away, lent       int           // times that another timer was given it; and has accepted it
	changes          int           // additions, extensions and cancellations under way
	version          int           // grows with each call that may move the deadline, and with each run
	floor            time.Duration // it does not run before
}

// timedMemory has tasks on each shard of a timer, as memory has operations.
var timedMemory [maxWheels][]*timedTask

func newTimedTask(r *timed, i int, used *[maxWheels]int) *timedTask {
	if timedMemory[0] == nil {
		all := make([]timedTask, 2048)
		for i := range all {
			// TaskEntry has an entry as its first field, so the conversion of the pointer is safe.
			at := (*entry.Entry)(unsafe.Pointer(&all[i].entry)).OperationBinding(0) & (maxWheels - 1)
			timedMemory[at] = append(timedMemory[at], &all[i])
		}
	}
	at := r.entries[i].wheel
	t := timedMemory[at][used[at]]
	used[at]++
	*t = timedTask{r: r, id: i, plan: &r.entries[i]}
	t.entry.Bind(t)
	return t
}

// promise notes that the deadline may be this one from here on. The function that it returns is
// called with whether it is.
func (t *timedTask) promise(deadline time.Duration) (kept func(bool)) {
	t.version++
	began := t.version
	t.floor = min(t.floor, deadline)
	alone := t.changes == 0
	t.changes++
	return func(is bool) {
		t.changes--
		only := t.adds == t.runs+t.ends+1 // no earlier run is about to begin
		if is && alone && only && t.version == began {
			t.floor = deadline
		}
	}
}

func (t *timedTask) add(d time.Duration) {
	now := t.r.timer.Now()
	deadline := timer.Deadline(now, d)
	scheduled, adds := t.scheduled(), t.adds
	kept := t.promise(deadline)
	t.adding++
	err := t.r.timer.AddAt(&t.entry, now, deadline)
	t.adding--
	accepted := t.r.accepts(err, scheduled || t.scheduled() || t.away > 0 || t.adds > adds)
	if accepted {
		t.adds++
	}
	kept(accepted)
}

func (t *timedTask) cancel() {
	t.version++
	t.changes++ // it may end an addition that begins later
	if t.r.timer.Cancel(&t.entry) {
		t.ends++
	}
	t.changes--
}

func (t *timedTask) extend(d time.Duration) {
	deadline := timer.Deadline(t.r.timer.Now(), d)
	kept := t.promise(deadline)
	kept(t.r.timer.Extend(&t.entry, deadline))
}

// stranger hands the entry to another timer, which keeps it if that is the first to accept it.
func (t *timedTask) stranger(d time.Duration) {
	other := t.r.other
	owned := t.adds > 0
	if changed := other.Cancel(&t.entry) || other.Extend(&t.entry, d) || other.DeadlineOf(&t.entry) != 0; changed && owned {
		t.r.fault("e%d: another timer has changed it", t.id)
	}
	t.away++
	if t.r.accepts(other.AddAt(&t.entry, 0, d), t.adding > 0 || t.adds > 0 || t.away > 1) {
		t.lent++
	}
	if t.lent > 0 && t.adds > 0 {
		t.r.fault("e%d: two timers have accepted it", t.id)
	}
}

// scheduled reports whether an addition may be in the timer, or may have been there since it began: one that is under way may be
// cancelled before its call returns.
func (t *timedTask) scheduled() bool {
	return t.adding > 0 || t.adds > t.runs+t.ends || t.r.tasks[0].somebodyEnds > 0
}

// RunTask implements timer.Task.
func (t *timedTask) RunTask(e *timer.TaskEntry) {
	if now := t.r.timer.Now(); now < t.floor {
		t.r.fault("e%d runs at %v, not allowed before %v", t.id, now, t.floor)
	}
	n := t.runs
	t.runs++
	t.version++
	if t.runs > t.adds+t.adding {
		t.r.fault("e%d runs for the %d. time, and was added %d times", t.id, t.runs, t.adds)
	}
	if e != &t.entry {
		t.r.fault("e%d runs with another entry", t.id)
	}
	sched.Yield()
	if n >= len(t.plan.does) {
		return
	}
	if c := t.plan.does[n]; c.what == "again" {
		t.add(time.Duration(c.ticks) * tick)
	} else {
		t.r.do(c)
	}
}

// timedFunc is a function of a program of a timer, with its handle.
type timedFunc struct {
	r      *timed
	id     int
	plan   *handlePlan
	handle *timer.Handle

	begun   bool // schedule was called
	start   time.Duration
	runs    int
	running bool
	ended   time.Duration // when the last run ended
	stopped bool          // a Stop has returned true, and no Reset has begun since
	claimed bool          // when a periodic function was stopped, a worker may have been about to run it, once
	moved   bool          // Reset or Extend was called
	armed   int           // how often it was armed, once: schedule and Reset that says false
	unarmed int           // Stop that says true, and the timer's Stop
}

func (f *timedFunc) schedule(d time.Duration) {
	if f.begun {
		return
	}
	f.begun = true
	f.start = f.r.timer.Now() + d
	period := time.Duration(f.plan.periods) * tick
	var err error
	f.armed++
	switch f.plan.how {
	case "after":
		f.handle, err = f.r.timer.AfterFunc(d, f.run)
	case "rate":
		f.handle, err = f.r.timer.ScheduleAtFixedRate(d, period, f.run)
	case "delay":
		f.handle, err = f.r.timer.ScheduleWithFixedDelay(d, period, f.run)
	}
	if !f.r.accepts(err, false) {
		f.armed--
		f.handle = nil
	}
}

func (f *timedFunc) run() {
	now, period := f.r.timer.Now(), time.Duration(f.plan.periods)*tick
	n := f.runs
	f.runs++
	claimed := f.claimed
	f.claimed = false
	switch {
	case (f.stopped || f.unfired() && !f.again()) && !claimed:
		f.r.fault("h%d runs after it was stopped", f.id)
	case f.running && f.plan.how != "after": // a Reset may let a function that runs once run again meanwhile
		f.r.fault("h%d overlaps itself", f.id)
	case f.moved:
	case now < f.start:
		f.r.fault("h%d runs at %v, before its first time %v", f.id, now, f.start)
	case f.plan.how == "rate" && now < f.start+time.Duration(n)*period:
		f.r.fault("h%d: run %d at %v", f.id, n, now)
	case f.plan.how == "delay" && n > 0 && now < f.ended+period:
		f.r.fault("h%d: run %d at %v, the one before has ended at %v", f.id, n, now, f.ended)
	}
	f.running = true
	defer func() {
		f.running = false
		f.ended = f.r.timer.Now()
	}()
	sched.Yield()
	if n < len(f.plan.does) && f.plan.does[n].what != "again" {
		f.r.do(f.plan.does[n])
	}
}

// again reports whether a function that runs once may have been scheduled again by a Reset: then a run
// may be that for which a worker was on its way, whatever has become of the later one.
func (f *timedFunc) again() bool { return f.plan.how == "after" && f.moved }

// unfired reports whether the timer's Stop has returned the handle.
func (f *timedFunc) unfired() bool { return f.handle != nil && slices.Contains(f.r.unfired, f.handle) }

func (f *timedFunc) stop() {
	if f.handle == nil {
		return
	}
	if f.handle.Stop() {
		f.unarmed++
		f.stopped = !f.again()
		f.claimed = f.plan.how != "after" && !f.running
	}
}

func (f *timedFunc) reset(d time.Duration) {
	if f.handle == nil {
		return
	}
	f.moved, f.stopped = true, f.stopped && f.plan.how != "after"
	f.armed++ // meanwhile it may run
	pending, err := f.handle.Reset(d)
	if pending || f.plan.how != "after" || !f.r.accepts(err, false) {
		f.armed--
	}
}

func (f *timedFunc) extend(d time.Duration) {
	if f.handle != nil {
		f.moved = true
		f.handle.Extend(d)
	}
}

// halt stops a periodic function, which would run for ever.
func (f *timedFunc) halt() {
	if f.handle != nil && f.plan.how != "after" {
		f.stop()
	}
}

// judge checks f when all has passed.
func (f *timedFunc) judge() {
	if f.handle == nil {
		return
	}
	if f.running || !f.handle.Expired() && !f.handle.Cancelled() {
		f.r.fault("h%d runs %v, or is pending, when all has passed", f.id, f.running)
	}
	if f.plan.how != "after" {
		return
	}
	if f.unfired() {
		f.unarmed++
	}
	if f.runs+f.unarmed != f.armed {
		f.r.fault("h%d was scheduled %d times, has run %d times, and was stopped %d times", f.id, f.armed, f.runs, f.unarmed)
	}
}
