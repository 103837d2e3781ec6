//go:build interleave

package sched

import (
	"fmt"
	"runtime/debug"
)

// Yield is a point at which the scheduler may let another goroutine run. Outside of an
// exploration, and in its Setup and check functions, it does nothing.
func Yield() {
	if s := active; s != nil && s.current != nil {
		s.point()
	}
}

// active is the run in progress. It needs no lock: there is one exploration at a time, and
// one of its goroutines runs at a time.
var active *run

// Exploration is a scenario and the bounds within which to explore its schedules.
type Exploration struct {
	// Setup creates the objects of one run and calls spawn for each goroutine; these
	// goroutines may call spawn too. It returns a check of what must hold when all
	// goroutines have ended.
	Setup func(spawn func(name string, f func())) (check func() error)
	// Preemptions is the largest number of preemptions in a schedule: how often the
	// scheduler interrupts a goroutine that could go on.
	Preemptions int
	// Replay is a schedule as Result.Schedule has it. If it is not empty, only that
	// schedule runs, and its steps are recorded.
	Replay string
}

// Result is the result of an exploration.
type Result struct {
	Schedules int      // how many schedules were run
	Points    int      // the largest number of choices in a schedule
	Failure   error    // the failure of the first schedule that failed
	Schedule  string   // that schedule, for Replay
	Steps     []string // its steps, if it was replayed
}

// Explore runs the scenario under every schedule within the bound on preemptions, depth first:
// each run repeats the choices of the previous run up to the last choice that has an untried
// option, and takes that option. It stops at the first failure.
func (e Exploration) Explore() (r Result) {
	var prefix []choice
	replay, err := parse(e.Replay)
	if err != nil {
		return Result{Failure: err}
	}
	for {
		s := &run{bound: e.Preemptions, choices: prefix, replay: replay, record: e.Replay != ""}
		s.execute(e.Setup)
		r.Schedules++
		r.Points = max(r.Points, len(s.choices))
		if s.failure != nil {
			r.Failure, r.Schedule, r.Steps = s.failure, s.schedule(), s.steps
			return r
		}
		if e.Replay != "" {
			r.Steps = s.steps
			return r
		}
		prefix = s.choices
		for len(prefix) > 0 && prefix[len(prefix)-1].taken+1 == prefix[len(prefix)-1].of {
			prefix = prefix[:len(prefix)-1]
		}
		if len(prefix) == 0 {
			return r
		}
		prefix[len(prefix)-1].taken++
	}
}

// choice is a point of a schedule at which several goroutines could run: the option taken and
// the number of options. If the current goroutine can go on, it is option 0.
type choice struct{ taken, of uint8 }

// thread is a goroutine of the scenario.
type thread struct {
	name   string
	resume chan struct{}
	until  func() bool // the condition that it waits for, or nil
	ended  bool
}

func (t *thread) enabled() bool { return !t.ended && (t.until == nil || t.until()) }

// run is one execution of a scenario.
type run struct {
	bound   int
	choices []choice
	replay  map[int]uint8

	at          int // index of the next choice
	preemptions int
	threads     []*thread
	current     *thread // nil in Setup and check
	done        chan struct{}
	failure     error
	record      bool
	steps       []string
	points      int
}

// maxPoints is far more than any scenario needs. A run that reaches it is in an endless loop.
const maxPoints = 100_000

func (s *run) execute(setup func(spawn func(string, func())) func() error) {
	s.done = make(chan struct{})
	active = s
	defer func() { active = nil }()
	check := setup(s.spawn)
	s.switchTo(s.choose(nil))
	<-s.done
	s.current = nil
	if s.failure == nil {
		s.failure = check()
	}
}

func (s *run) spawn(name string, f func()) {
	t := &thread{name: name, resume: make(chan struct{}, 1)}
	s.threads = append(s.threads, t)
	go func() {
		<-t.resume
		defer func() {
			if v := recover(); v != nil {
				s.fail(fmt.Errorf("%s panics: %v\n%s", t.name, v, debug.Stack()))
				return
			}
			t.ended = true
			s.note("ends")
			s.switchTo(s.choose(nil))
		}()
		f()
	}()
}

// point lets the scheduler choose which goroutine goes on.
func (s *run) point() {
	if s.points++; s.points > maxPoints {
		s.fail(fmt.Errorf("%d points in one schedule: a goroutine is in an endless loop", s.points))
		select {} // this run has failed; its goroutines never go on
	}
	me := s.current
	next := s.choose(me)
	if next != me {
		s.note("is interrupted")
		s.switchTo(next)
		<-me.resume
		return
	}
	s.note("")
}

// sleep suspends the current goroutine until the condition holds. The condition must not call
// Yield. what is the step that a replay records.
func (s *run) sleep(what string, until func() bool) {
	if until() {
		return
	}
	me := s.current
	me.until = until
	s.note(what)
	s.switchTo(s.choose(nil))
	<-me.resume
	me.until = nil
}

// switchTo lets next run; the caller then waits until it is resumed. A nil next means that no
// goroutine can run: all have ended, or the rest is in a deadlock.
func (s *run) switchTo(next *thread) {
	if next != nil {
		s.current = next
		next.resume <- struct{}{}
		return
	}
	for _, t := range s.threads {
		if !t.ended {
			s.fail(fmt.Errorf("deadlock: %s waits for ever", t.name))
			return
		}
	}
	close(s.done)
}

// fail ends the run with err. Goroutines that have not ended stay blocked for ever.
func (s *run) fail(err error) {
	if s.failure == nil {
		s.failure = err
		close(s.done)
	}
}

// choose returns the goroutine that runs next. me is the current goroutine if it can go on; to
// choose another one is a preemption then. If me is nil, choose returns a goroutine that can
// run, nil if there is none.
func (s *run) choose(me *thread) *thread {
	var buffer [8]*thread
	options := buffer[:0]
	if me != nil {
		options = append(options, me)
	}
	if me == nil || s.preemptions < s.bound {
		for _, t := range s.threads {
			if t != me && t.enabled() {
				options = append(options, t)
			}
		}
	}
	if len(options) == 0 {
		return nil
	}
	if len(options) == 1 {
		return options[0]
	}
	if s.at == len(s.choices) {
		s.choices = append(s.choices, choice{taken: s.replay[s.at], of: uint8(len(options))})
	}
	c := s.choices[s.at]
	if int(c.of) != len(options) || c.taken >= c.of {
		panic(fmt.Sprintf("sched: the scenario is not deterministic: choice %d had %d options, has %d", s.at, c.of, len(options)))
	}
	s.at++
	if me != nil && c.taken > 0 {
		s.preemptions++
	}
	return options[c.taken]
}
