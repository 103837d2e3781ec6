//go:build interleave

package programs

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/timer"
)

// TestTimers runs a timer alone, a manual one or a system timer with its driver, on one shard or
// several, beside goroutines that add, cancel and extend entries, schedule functions, once and
// periodically, stop, reset and extend these, look, let time pass and stop the timer. Tasks add
// themselves again, touch other entries, panic and exit.
//
//   - What was added runs once, or was cancelled, or is what Stop returns; and when its time has
//     passed it is one of these.
//   - Nothing runs before its deadline, nor an extended entry before the new one.
//   - Runs of a periodic function do not overlap; at a fixed rate none comes before its turn, with a
//     fixed delay none before the pause is over. After a Stop that returned true at most the run
//     begins for which a worker was on its way.
//   - An entry is in one timer for ever. An error has a reason.
func TestTimers(t *testing.T) { runFamily(t, "timer", drawTimer) }

// timing is a program.
type timing struct {
	system     bool
	wheels     int
	workers    int
	maxPending int
	grace      int // WithStallGrace, in ticks
	entries    []entryPlan
	handles    []handlePlan
	goroutines [][]timerCall
}

// entryPlan is an entry: its shard, and what its task does in its runs, in turn.
type entryPlan struct {
	wheel int
	does  []timerCall
}

type handlePlan struct {
	how     string
	periods int
	does    []timerCall
}

// timerCall is a step.
type timerCall struct {
	what  string
	which int
	ticks int
}

func (c timerCall) String() string { return fmt.Sprintf("%s %d %d", c.what, c.which, c.ticks) }

func drawTimer(d *drawer) small {
	g := &timing{system: d.oneIn(2), wheels: 1, workers: 1 + d.IntN(2)}
	if d.oneIn(4) {
		g.maxPending = 1 + d.IntN(2)
	}
	whats := []string{"add", "add", "cancel", "extend", "advance", "cancelAll", "stranger", "look", "drive"}
	if d.oneIn(2) {
		g.wheels = 1 << d.IntN(3)
	} else { // the address of a handle, and so its shard, differs from run to run
		for range 1 + d.IntN(2) {
			g.handles = append(g.handles, handlePlan{how: []string{"after", "rate", "delay"}[d.IntN(3)], periods: 1 + d.IntN(3)})
		}
		whats = append(whats, "schedule", "schedule", "stop", "reset", "extendHandle")
	}
	for range 1 + d.IntN(3) {
		g.entries = append(g.entries, entryPlan{wheel: d.IntN(g.wheels)})
	}
	if d.oneIn(4) {
		whats = append(whats, "stopTimer")
	}
	call := func() timerCall {
		c := timerCall{what: whats[d.IntN(len(whats))], which: d.IntN(3), ticks: []int{0, 1, 1, 2, 3, 5, 17, 70}[d.IntN(8)]}
		if c.what == "advance" || c.what == "drive" {
			c.ticks = 1 + c.ticks%4
		}
		return c
	}
	does := func() (calls []timerCall) {
		for d.oneIn(2) {
			c := call()
			switch d.IntN(8) {
			case 0:
				c.what = "panic"
			case 1:
				c.what = "goexit"
			case 2:
				c.what = "again"
			}
			if c.what != "drive" { // it blocks
				calls = append(calls, c)
			}
		}
		return calls
	}
	for i := range g.entries {
		g.entries[i].does = does()
	}
	for i := range g.handles {
		g.handles[i].does = does()
	}
	for range 2 + d.IntN(3) {
		calls := []timerCall{{what: "add", which: d.IntN(3), ticks: d.IntN(4)}}
		for range d.IntN(4) {
			calls = append(calls, call())
		}
		g.goroutines = append(g.goroutines, calls)
	}
	if g.system && d.oneIn(4) {
		g.grace = 1 + d.IntN(3)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "system %v, %d wheels, %d workers, at most %d, grace %d, entries %v, handles %v\n", g.system, g.wheels, g.workers, g.maxPending, g.grace, g.entries, g.handles)
	for _, calls := range g.goroutines {
		fmt.Fprintln(&b, " ", calls)
	}
	return small{b.String(), g.setup}
}

// timed is one run.
type timed struct {
	*timing
	timer interface {
		timer.Timer
		AddAt(task *timer.TaskEntry, now, deadline time.Duration) error
		Cancel(task *timer.TaskEntry) bool
		AdvanceClock(d time.Duration) bool
		Pending() int
		Extend(task *timer.TaskEntry, deadline time.Duration) bool
		CancelAll(tasks []*timer.TaskEntry) int
		AfterFunc(d time.Duration, f func()) (*timer.Handle, error)
		ScheduleAtFixedRate(first, period time.Duration, f func()) (*timer.Handle, error)
		ScheduleWithFixedDelay(first, delay time.Duration, f func()) (*timer.Handle, error)
		Stop() []any
	}
	other    *timer.ManualTimer
	stopping bool
	tasks    []*timedTask
	funcs    []*timedFunc
	unfired  []*timer.Handle // what Stop has returned
	faults   []error
}

func (g *timing) setup(spawn func(string, func())) func() error {
	r := &timed{timing: g}
	panicked := func(v any, stack []byte) {
		if err, ok := v.(error); !ok || !errors.Is(err, errBoom) {
			r.fault("panic: %v\n%s", v, stack)
		}
	}
	options := []timer.Option{
		timer.WithWheelSize(4), timer.WithShards(g.wheels), timer.WithWorkers(g.workers), timer.WithMaxPending(g.maxPending), timer.WithPanicHandler(panicked),
		timer.WithStallGrace(time.Duration(g.grace) * tick),
	}
	var err, failed error
	if g.system {
		var t *timer.SystemTimer
		t, err = timer.NewSystemTimer(options...)
		t.Start()
		r.timer = t
	} else {
		r.timer, err = timer.NewManualTimer(options...)
	}
	if r.other, failed = timer.NewManualTimer(); errors.Join(err, failed) != nil {
		panic(errors.Join(err, failed))
	}
	var used [maxWheels]int
	for i := range g.entries {
		r.tasks = append(r.tasks, newTimedTask(r, i, &used))
	}
	for i := range g.handles {
		r.funcs = append(r.funcs, &timedFunc{r: r, id: i, plan: &g.handles[i]})
	}
	for i, calls := range g.goroutines {
		spawn(fmt.Sprint("g", i+1), func() {
			for _, c := range calls {
				r.do(c)
			}
		})
	}
	spawn("last", r.last)
	return func() error { return errors.Join(r.faults...) }
}

func (r *timed) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf(format, args...))
}

// do makes a step.
func (r *timed) do(c timerCall) {
	d := time.Duration(c.ticks) * tick
	if c.ticks%2 == 1 {
		d -= tick / 3
	}
	task := r.tasks[c.which%len(r.tasks)]
	var f *timedFunc
	if len(r.funcs) > 0 {
		f = r.funcs[c.which%len(r.funcs)]
	}
	switch c.what {
	case "add":
		task.add(d)
	case "cancel":
		task.cancel()
	case "extend":
		task.extend(d)
	case "cancelAll":
		r.cancelAll()
	case "stranger":
		task.stranger(d)
	case "look":
		if pending := r.timer.Pending(); pending < 0 {
			r.fault("%d are pending", pending)
		}
	case "drive":
		r.timer.AdvanceClock(d)
	case "advance":
		r.pass(d)
	case "stopTimer":
		r.stop()
	case "schedule":
		f.schedule(d)
	case "stop":
		f.stop()
	case "reset":
		f.reset(d)
	case "extendHandle":
		f.extend(d)
	case "panic":
		panic(errBoom)
	case "goexit":
		runtime.Goexit()
	}
}

// pass lets time pass.
func (r *timed) pass(d time.Duration) {
	if r.system {
		sched.Advance(d)
	} else {
		r.timer.AdvanceClock(d)
	}
}

func (r *timed) stop() {
	r.stopping = true
	for _, unfired := range r.timer.Stop() {
		switch x := unfired.(type) {
		case *timedTask:
			x.ends++
			x.version++
		case *timer.Handle:
			r.unfired = append(r.unfired, x)
		}
	}
}

func (r *timed) cancelAll() {
	var entries []*timer.TaskEntry
	for _, task := range r.tasks {
		task.version++
		task.changes++
		entries = append(entries, &task.entry)
	}
	r.tasks[0].somebodyEnds += r.timer.CancelAll(entries)
	for _, task := range r.tasks {
		task.changes--
	}
}

// accepts reports whether an error of an addition has a reason.
func (r *timed) accepts(err error, scheduled bool) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, timer.ErrFull) && r.maxPending > 0, errors.Is(err, timer.ErrStopped) && r.stopping, errors.Is(err, timer.ErrInvalid) && scheduled:
	default:
		r.fault("refused: %v", err)
	}
	return false
}

// last judges when nothing can go on, and again when all has passed.
func (r *timed) last() {
	explore.Settle()
	for n := 0; n < 20 && (n == 0 || r.timer.Pending() > 0); n++ { // a task may add itself again, or schedule a function
		for _, f := range r.funcs {
			f.halt()
		}
		r.pass(100 * tick)
		explore.Settle()
		if r.grace > 0 { // that was a stall
			r.pass(time.Duration(r.grace) * tick)
			explore.Settle()
		}
	}
	if due, _ := r.timer.Entries().Due(); r.timer.Pending() != 0 || due != 0 {
		r.fault("%d are pending when all has passed, and %d due", r.timer.Pending(), due)
	}
	adds, ends := 0, 0
	for _, task := range r.tasks {
		adds, ends = adds+task.adds, ends+task.runs+task.ends+task.somebodyEnds
	}
	if adds != ends {
		r.fault("%d additions, and %d of them have run, were cancelled or stopped", adds, ends)
	}
	for _, f := range r.funcs {
		f.judge()
	}
	r.stopping = true
	if left := r.timer.Stop(); len(left) > 0 {
		r.fault("Stop returns %d when all has passed", len(left))
	}
	explore.Settle()
	if t, system := r.timer.(*timer.SystemTimer); system && !t.Idle() {
		r.fault("not idle after Stop")
	}
}
