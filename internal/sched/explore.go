//go:build interleave

package sched

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Mutex is a mutual exclusion lock whose owner the scheduler chooses. Lock and
// TryLock yield before they look; Unlock yields while the lock is still held, so that
// others find it taken.
type Mutex struct{ held bool }

// Lock locks m, or lets others run until it can.
func (m *Mutex) Lock() {
	Yield()
	for m.held {
		if active == nil || active.current == nil {
			panic("sched: a lock is held outside of an exploration")
		}
		active.block(m)
	}
	m.held = true
}

// TryLock locks m if it is free.
func (m *Mutex) TryLock() bool {
	Yield()
	if m.held {
		return false
	}
	m.held = true
	return true
}

// Unlock unlocks m.
func (m *Mutex) Unlock() {
	Yield()
	if !m.held {
		panic("sched: unlock of a mutex that is not locked")
	}
	m.held = false
}

// Yield is a point at which the scheduler may let another goroutine run. Outside of an
// exploration, and in its Setup and Check, it does nothing.
func Yield() {
	if s := active; s != nil && s.current != nil {
		s.point()
	}
}

// active is the exploration that is under way. One goroutine runs at a time, so
// that it needs no lock; and there is one exploration at a time.
var active *run

// Exploration is a scenario and how thoroughly to go through it.
type Exploration struct {
	// Setup makes everything anew and calls spawn for each goroutine; spawn may
	// also be called by those goroutines. It returns what has to hold when all of them
	// have ended.
	Setup func(spawn func(name string, f func())) (check func() error)
	// Preemptions is how often at most a goroutine is interrupted that could go on.
	Preemptions int
	// Replay is a schedule as it is printed with a failure: only that one is run,
	// and its steps are recorded.
	Replay string
	// Limit is the most schedules to run; 0: no limit.
	Limit int
}

// Result is what an exploration has found.
type Result struct {
	Schedules int
	Points    int // most points at which there was a choice, of any schedule
	Complete  bool
	Failure   error  // of the first schedule that failed
	Schedule  string // that one, for Replay
	Steps     []string
}

// Explore runs the scenario under every schedule within the bound on preemptions, depth
// first: each run repeats the choices of the one before up to the last that has an
// alternative left, and takes that. It stops at the first failure.
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
			r.Complete = true
			return r
		}
		prefix[len(prefix)-1].taken++
		if e.Limit > 0 && r.Schedules >= e.Limit {
			return r
		}
	}
}

// choice is one point of a schedule at which several goroutines could run. The 0th
// option is to go on.
type choice struct{ taken, of uint8 }

// thread is a goroutine of the scenario.
type thread struct {
	name   string
	resume chan struct{}
	waits  *Mutex // nil unless blocked
	ended  bool
}

func (t *thread) enabled() bool { return !t.ended && (t.waits == nil || !t.waits.held) }

// run is one execution of a scenario.
type run struct {
	bound   int
	choices []choice
	replay  map[int]uint8

	at          int // next of choices
	preemptions int
	threads     []*thread
	current     *thread // nil in Setup and check
	over        chan struct{}
	failure     error
	record      bool
	steps       []string
	points      int
}

// mostPoints is far beyond any scenario's: who gets there runs in circles.
const mostPoints = 100_000

func (s *run) execute(setup func(spawn func(string, func())) func() error) {
	s.over = make(chan struct{})
	active = s
	defer func() { active = nil }()
	check := setup(s.spawn)
	s.switchTo(s.choose(nil))
	<-s.over
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

// point lets the scheduler choose who goes on.
func (s *run) point() {
	if s.points++; s.points > mostPoints {
		s.fail(fmt.Errorf("%d points in one schedule: a goroutine runs in circles", s.points))
		select {} // the rest of this run is abandoned
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

func (s *run) block(m *Mutex) {
	me := s.current
	me.waits = m
	s.note("waits for a lock")
	s.switchTo(s.choose(nil))
	<-me.resume
	me.waits = nil
}

// switchTo lets next run; the caller then waits for its own turn. Nobody to run: the
// run is over.
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
	close(s.over)
}

// fail ends the run; its goroutines are abandoned where they stand.
func (s *run) fail(err error) {
	if s.failure == nil {
		s.failure = err
		close(s.over)
	}
}

// choose returns who runs next: me, who could go on, or another, which counts as a
// preemption; or, if me is nil, any who can, nil if none can.
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

// note records a step, with where it was taken, if a schedule is replayed.
func (s *run) note(what string) {
	if !s.record || s.current == nil {
		return
	}
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.File, "internal/sched/") || !more {
			file := f.File[strings.LastIndexByte(f.File[:strings.LastIndexByte(f.File, '/')], '/')+1:]
			s.steps = append(s.steps, strings.TrimSpace(fmt.Sprintf("%-12s %s:%d %s", s.current.name, file, f.Line, what)))
			return
		}
	}
}

// schedule prints the choices that were not to go on: "choice:option,…".
func (s *run) schedule() string {
	var out []string
	for i, c := range s.choices {
		if c.taken > 0 {
			out = append(out, fmt.Sprintf("%d:%d", i, c.taken))
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ",")
}

func parse(schedule string) (map[int]uint8, error) {
	if schedule == "" || schedule == "none" {
		return nil, nil
	}
	m := make(map[int]uint8)
	for part := range strings.SplitSeq(schedule, ",") {
		at, taken, ok := strings.Cut(part, ":")
		i, err := strconv.Atoi(at)
		n, err2 := strconv.ParseUint(taken, 10, 8)
		if !ok || err != nil || err2 != nil {
			return nil, fmt.Errorf("sched: %q is not a schedule", schedule)
		}
		m[i] = uint8(n)
	}
	return m, nil
}
