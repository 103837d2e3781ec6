package odd

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

// timers is a World of a timer that drives itself, and of one whose clock the cells move.
type timers struct {
	t       *testing.T
	system  *timer.SystemTimer
	manual  *timer.ManualTimer
	reports atomic.Int32
	report  func(v any, stack []byte)
	closed  bool
}

func newTimers(t *testing.T) *timers {
	w := &timers{t: t}
	w.report = func(v any, _ []byte) {
		if v == any(ErrOdd) {
			w.reports.Add(1)
		}
	}
	handler := timer.WithPanicHandler(func(v any, stack []byte) { w.report(v, stack) })
	var err error
	w.system, err = timer.NewSystemTimer(timer.WithWorkers(4), handler)
	require.NoError(t, err)
	w.system.Start()
	w.manual, err = timer.NewManualTimer(handler)
	require.NoError(t, err)
	return w
}

// task is a Task that is no function.
type task struct {
	timer.TaskEntry
	f func()
}

func (t *task) RunTask(*timer.TaskEntry) { t.f() }

func (w *timers) Back() {
	for _, of := range []any{w.system, w.manual} {
		var own task
		own.f = func() {}
		own.Bind(&own)
		assert.NoError(w.t, Methods(of, []string{"Stop", "AdvanceClockUntil"}, func(method string, of reflect.Type) any {
			switch of {
			case reflect.TypeFor[*timer.TaskEntry]():
				return &own.TaskEntry
			case reflect.TypeFor[[]*timer.TaskEntry]():
				return []*timer.TaskEntry{&own.TaskEntry}
			case reflect.TypeFor[time.Duration]():
				if method == "AdvanceClock" {
					return time.Duration(0)
				}
				return long
			case reflect.TypeFor[func()]():
				return func() {}
			}
			return nil
		}))
	}
}

func (w *timers) Close() {
	w.closed = true
	w.system.Stop()
	w.manual.Stop()
}

func (w *timers) Seen() string {
	synctest.Wait()
	if w.reports.Swap(0) > 0 {
		return "reported"
	}
	return ""
}

func (w *timers) Beside() {
	if w.closed {
		return
	}
	var ran atomic.Bool
	_, err := w.system.AfterFunc(time.Minute, func() { ran.Store(true) })
	require.NoError(w.t, err)
	time.Sleep(2 * time.Minute)
	assert.True(w.t, ran.Load(), "another timeout")
	_, err = w.manual.AfterFunc(time.Minute, func() {})
	assert.NoError(w.t, err)
}

func (w *timers) End() {
	time.Sleep(time.Minute)
	w.manual.AdvanceClock(time.Minute)
	w.system.Stop()
	w.manual.Stop()
	time.Sleep(time.Minute)
	assert.True(w.t, w.system.Idle(), "no task runs")
	assert.Zero(w.t, w.system.Pending()+w.manual.Pending())
}

// both are the things of both timers.
func both(method string) []string { return []string{"SystemTimer." + method, "ManualTimer." + method} }

// of returns the timer that a cell is about.
func (w *timers) of(d *Do) *timer.Entries {
	if strings.HasPrefix(d.Of, "Manual") {
		return w.manual.Entries()
	}
	return w.system.Entries()
}

// pass lets time pass for that timer.
func (w *timers) pass(d *Do, by time.Duration) {
	if strings.HasPrefix(d.Of, "Manual") {
		w.manual.AdvanceClock(by)
	} else {
		time.Sleep(by)
	}
}

// On a ManualTimer tasks run inside AdvanceClock.
func TestOddUsersOfATimer(t *testing.T) {
	const period = time.Minute
	rows := []Row[*timers]{
		{Of: []string{"Timer.Entries", "Timer.Now"}, Not: "only package timer can make Entries"},
		{Of: []string{"WithLogger(l)"}, Not: "one record in the life of a process goes there, on the goroutine that calls Start"},
		{
			Of: both("CancelAll(tasks)"), On: "afterwards", Want: ofSlices("2 <nil>"),
			Do: func(w *timers, d *Do) string {
				var tasks []*timer.TaskEntry
				now := w.of(d).Now()
				for range 2 {
					own := &task{f: func() { w.t.Error("it runs") }}
					own.Bind(own)
					tasks = append(tasks, &own.TaskEntry)
					require.NoError(w.t, w.of(d).AddAt(&own.TaskEntry, now, now+period))
				}
				first := tasks[0]
				n := w.of(d).CancelAll(tasks)
				Slice(d, tasks, nil)
				d.Spoil()
				err := w.of(d).AddAt(first, now, now+long)
				w.pass(d, 2*period)
				return fmt.Sprint(n, " ", err)
			},
		},
	}
	for _, name := range both("AfterFunc(f)") {
		manual := strings.HasPrefix(name, "Manual")
		want := elsewhere("3 of 3")
		if manual {
			want = recovered("3 of 3")
		}
		want[Closes] = "1 of 3"
		rows = append(rows, Row[*timers]{
			Of: []string{name}, Want: want,
			Do: func(w *timers, d *Do) string {
				var ran atomic.Int32
				for _, at := range []time.Duration{period, period + time.Second, 2 * period} {
					_, err := w.of(d).AfterFunc(at, func() {
						if ran.Add(1) == 1 {
							d.Act()
						}
					})
					require.NoError(w.t, err)
				}
				w.pass(d, 3*period)
				return fmt.Sprintf("%d of 3", ran.Load())
			},
		})
	}
	rows = append(rows, Row[*timers]{
		Of: []string{"Task.RunTask"}, Want: with(Closes, "1 of 2", elsewhere("2 of 2")),
		Do: func(w *timers, d *Do) string {
			var ran atomic.Int32
			now := w.system.Now()
			for i := range 2 {
				own := &task{f: func() {
					if ran.Add(1) == 1 {
						d.Act()
					}
				}}
				own.Bind(own)
				require.NoError(w.t, w.system.AddAt(&own.TaskEntry, now, now+time.Duration(i+1)*period))
			}
			time.Sleep(3 * period)
			return fmt.Sprintf("%d of 2", ran.Load())
		},
	})
	for _, method := range []string{"ScheduleAtFixedRate(f)", "ScheduleWithFixedDelay(f)"} {
		for _, name := range both(method) {
			want := with(Stays, "2 runs", elsewhere("5 runs")) // its own next run waits for it
			if strings.HasPrefix(name, "Manual") {
				want = recovered("5 runs")
			}
			want[Closes] = "2 runs"
			rows = append(rows, Row[*timers]{
				Of: []string{name}, On: "in its second run", Want: want,
				Do: func(w *timers, d *Do) string {
					var runs atomic.Int32
					schedule := w.of(d).ScheduleAtFixedRate
					if strings.HasSuffix(name, "ScheduleWithFixedDelay(f)") {
						schedule = w.of(d).ScheduleWithFixedDelay
					}
					h, err := schedule(period, period, func() {
						if runs.Add(1) == 2 {
							d.Act()
						}
					})
					require.NoError(w.t, err)
					defer h.Stop()
					w.pass(d, 5*period+time.Second)
					return fmt.Sprintf("%d runs", runs.Load())
				},
			})
		}
	}
	rows = append(rows, Row[*timers]{
		Of: []string{"WithPanicHandler(h)"}, Want: and(silently("ran"), ofSlices("ran")),
		Do: func(w *timers, d *Do) string {
			w.report = func(_ any, stack []byte) { Slice(d, stack, 0); d.Act() }
			var ran atomic.Bool
			_, err := w.system.AfterFunc(period, func() { panic("of the task") })
			require.NoError(w.t, err)
			_, err = w.system.AfterFunc(2*period, func() { ran.Store(true) })
			require.NoError(w.t, err)
			time.Sleep(3 * period)
			return map[bool]string{true: "ran", false: "did not run"}[ran.Load()]
		},
	})
	rows[len(rows)-1].Want[Closes] = "did not run"
	Check(t, "../../timer", newTimers, rows)
}
