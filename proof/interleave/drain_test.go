//go:build interleave

package interleave

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/reaper"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/timer"
)

// stopped is a run of a timer that stops, with two entries. What became of them must add up.
type stopped struct {
	timer interface {
		timer.Timer
		AddAt(e *timer.TaskEntry, now, deadline time.Duration) error
		Cancel(e *timer.TaskEntry) bool
		AdvanceClock(d time.Duration) bool
		AfterFunc(d time.Duration, f func()) (*timer.Handle, error)
		Extend(e *timer.TaskEntry, deadline time.Duration) bool
		Pending() int
		Stop() []any
	}
	entries  []*counted
	over     bool // Stop has returned
	stopping int  // that have not
	quiet    bool // no task runs any more
	err      error
}

// counted is a task, and what has become of it.
type counted struct {
	timer.TaskEntry
	s                    *stopped
	added, ran, returned int
}

func (c *counted) RunTask(*timer.TaskEntry) {
	if c.s.quiet {
		c.s.err = errors.New("a task runs although Idle has returned true")
	}
	c.ran++
	sched.Yield()
	c.returned++
}

func (s *stopped) add(c *counted, deadline time.Duration) {
	over := s.over
	switch err := s.timer.AddAt(&c.TaskEntry, 0, deadline); {
	case err == nil && over:
		s.err = errors.New("added after Stop has returned")
	case err == nil:
		c.added++
	case !errors.Is(err, timer.ErrStopped) && !errors.Is(err, timer.ErrInvalid):
		s.err = err
	}
}

// stop stops the timer. When it returns no entry is pending, unless another Stop is under way.
func (s *stopped) stop() {
	s.stopping++
	defer func() { s.stopping-- }()
	for _, unfired := range s.timer.Stop() {
		if c, ok := unfired.(*counted); ok { // no handle
			c.added--
		}
	}
	s.over = true
	if n := s.timer.Pending(); n > 0 && s.stopping == 1 {
		s.err = fmt.Errorf("%d are pending when Stop returns", n)
	}
}

// beforeStop are what goes on beside Stop.
var beforeStop = map[string]func(s *stopped){
	"add":     func(s *stopped) { s.add(s.entries[1], time.Hour) },
	"add due": func(s *stopped) { s.add(s.entries[1], 0) },
	"cancel": func(s *stopped) {
		if s.timer.Cancel(&s.entries[0].TaskEntry) {
			s.entries[0].added--
		}
	},
	"cancel and add": func(s *stopped) {
		if s.timer.Cancel(&s.entries[0].TaskEntry) {
			s.entries[0].added--
		}
		s.add(s.entries[0], time.Hour)
	},
	"extend":  func(s *stopped) { s.timer.Extend(&s.entries[0].TaskEntry, 2*time.Hour) },
	"hasten":  func(s *stopped) { s.timer.Extend(&s.entries[0].TaskEntry, 0) },
	"advance": func(s *stopped) { s.timer.AdvanceClock(0) },
	"stop":    func(s *stopped) { s.stop() },
	"function": func(s *stopped) {
		h, err := s.timer.AfterFunc(time.Hour, func() {})
		if err == nil {
			h.Stop()
		}
	},
}

// Stop of a timer beside each verb, with an entry that is due and one that is not: whatever was added has run, was cancelled or is
// returned; when Stop returns nothing is pending, and once Idle has returned true no task runs.
func TestATimerStopsBesideEveryVerb(t *testing.T) {
	for _, kind := range []string{"system", "manual"} {
		for _, name := range slices.Sorted(keysOf(beforeStop)) {
			for _, due := range []bool{false, true} {
				exploreOne(t, fmt.Sprintf("stop-%s+%s/due=%v", kind, name, due), min(*pairBound, 2), func(spawn func(string, func())) func() error {
					s := &stopped{}
					idle := func() bool { return true }
					if kind == "system" {
						system, err := timer.NewSystemTimer(timer.WithShards(1), timer.WithWorkers(1))
						must(err)
						s.timer, idle = system, system.Idle
					} else {
						manual, err := timer.NewManualTimer()
						must(err)
						s.timer = manual
					}
					for range 2 {
						c := &counted{s: s}
						c.Bind(c)
						s.entries = append(s.entries, c)
					}
					deadline := time.Hour
					if due {
						deadline = 0
					}
					s.add(s.entries[0], deadline)
					spawn(name, func() { beforeStop[name](s) })
					spawn("stop of the timer", func() {
						s.stop()
						if kind == "system" {
							for !idle() {
								sched.Pause(time.Millisecond, nil)
							}
							if s.quiet = name != "advance"; s.quiet { // the driver may hand over what it has found before
								for _, c := range s.entries {
									if c.ran != c.returned {
										s.err = errors.New("a task runs when Idle returns true")
									}
								}
							}
						}
					})
					return func() error {
						for i, c := range s.entries {
							if c.added != c.ran || c.ran != c.returned {
								return fmt.Errorf("entry %d was added %d times, but for those that were cancelled or returned, and ran %d times", i, c.added, c.ran)
							}
						}
						return s.err
					}
				})
			}
		}
	}
}

// standStill is the AdvanceClockUntil of a clock on which nothing expires.
func standStill(stop <-chan struct{}, _ time.Duration) bool {
	sched.Receive(stop)
	return false
}

// A reaper that says that it has ended sweeps no more.
func TestAReaperEndsWithItsLastSweep(t *testing.T) {
	exploreOne(t, "reaper-stops", 2, func(spawn func(string, func())) func() error {
		sweeps, ended := 0, false
		var err error
		r := reaper.Start(standStill, timeout, func() {
			sweeps++
			sched.Yield()
			if sweeps--; ended {
				err = errors.New("it sweeps after it has ended")
			}
		})
		spawn("stop", func() {
			r.Stop()
			sched.Yield()
			if ended = r.Ended(); ended && sweeps > 0 {
				err = errors.New("it sweeps, and says that it has ended")
			}
		})
		return func() error { return err }
	})
}

// run is one Run of a runner, and what the runner calls meanwhile.
type runs struct {
	p      *purgatory.Purgatory[int]
	inside int
	over   bool
	err    error
}

// user is user code that the runner calls.
func (r *runs) user(what string) func() {
	if r.over {
		r.err = fmt.Errorf("%s is called after Run has returned", what)
	}
	r.inside++
	sched.Yield()
	return func() { r.inside-- }
}

func (r *runs) Keys() iter.Seq[int] {
	defer r.user("Keys")()
	return r.p.Keys()
}

func (r *runs) SignalUpTo(key int, position int64) bool {
	defer r.user("SignalUpTo")()
	return r.p.SignalUpTo(key, position)
}

// said is what a source says before its context ends.
var said = map[string]func(r *runs, sink signals.Sink[int]){
	"nothing": func(*runs, signals.Sink[int]) {},
	"changed": func(_ *runs, sink signals.Sink[int]) { sink.Changed(1, 1) },
	"missed":  func(_ *runs, sink signals.Sink[int]) { sink.Missed(errCause) },
	"subscribed": func(r *runs, sink signals.Sink[int]) {
		sink.Subscribed(signals.Subscription{Every: time.Second, Limit: time.Minute, Probe: func(_ context.Context, n uint64) error {
			defer r.user("Probe")()
			sink.Heard(n)
			return nil
		}})
	},
}

// When Run returns, because its context has ended, no code of the user's runs for it, and none will: in
// random schedules.
func TestARunnerEndsBesideWhatItsSourceSays(t *testing.T) {
	for _, name := range slices.Sorted(keysOf(said)) {
		setup := func(spawn func(string, func())) func() error {
			p, _ := lightPurgatory()
			_, err := p.StartWait(time.Hour, func() bool { return false }, 1)
			must(err)
			r := &runs{p: p}
			runner, err := signals.To[int](r, signals.WithSpread(0), signals.WithLag(time.Millisecond), signals.WithResync(func(context.Context, []int) error {
				defer r.user("the bulk read")()
				return nil
			}))
			must(err)
			ctx, cancel := context.WithCancelCause(context.Background())
			spoken := make(chan struct{})
			spawn("run", func() {
				err := runner.Run(ctx, signals.SourceFunc[int](func(ctx context.Context, sink signals.Sink[int]) error {
					defer r.user("the source")()
					said[name](r, sink)
					close(spoken)
					sched.Receive(ctx.Done())
					return context.Cause(ctx)
				}))
				if r.over = true; r.inside > 0 || !errors.Is(err, errCause) {
					r.err = fmt.Errorf("when Run returns %v, %d calls of the user's code run", err, r.inside)
				}
			})
			spawn("cancel", func() { sched.Receive(spoken); cancel(errCause) })
			return func() error { return r.err }
		}
		if *only != "" {
			continue
		}
		found := explore.Exploration{Setup: setup}.Random(1, 3000) // there are too many for all: five goroutines, and time that passes
		if schedules += found.Schedules; found.Failure != nil {
			t.Errorf("%s: %v, after %d schedules: %s", name, found.Failure, found.Schedules, found.Schedule)
		}
	}
}
