//go:build interleave

package explore

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/delayedop/purgatory/proof/explore/sched"
)

// strategy chooses the thread that runs next.
type strategy interface {
	// spawned is called when a thread has been made.
	spawned(t *thread)
	// stays reports that me, which can go on, does so whatever the other threads do.
	stays(s *run, me *thread) bool
	// pick returns one of the options, all of which can run. If the current thread me can
	// go on, it is the first; otherwise me is nil. The others are in the order of spawn.
	pick(me *thread, options []*thread) *thread
}

// active is the run in progress.
var active *run

// run is one execution of a scenario. It is the scheduler of internal/sched meanwhile.
type run struct {
	by      strategy
	main    bool      // the scenario's goroutines run, and by chooses; otherwise Setup or the check does
	threads int       // how many were made
	live    []*thread // those that have not ended, in the order of spawn
	asleep  int       // how many of these sleep
	current *thread   // the thread that runs
	next    *thread   // the thread that runs when current has left
	options []*thread // scratch of choose

	points  int // in main
	quiet   int // points outside
	resumed int // how often a thread has been let run
	moves   []move
	failure error
	record  bool
	steps   []string
}

// maxPoints is far more than any scenario needs. A run that reaches it is in an endless loop.
const maxPoints = 300_000

// execute runs a scenario once. After a failure, threads that have not ended stay where they are.
func execute(setup func(spawn func(string, func())) func() error, by strategy, record bool) *run {
	s := &run{by: by, record: record, threads: -1}
	active = s
	sched.Install(s)
	defer func() {
		active = nil
		sched.Install(nil)
	}()
	var check func() error
	s.spawn("Setup", func() { check = setup(s.spawn) })
	first := s.live[0]
	s.runUntil(first)
	s.main = true
	s.next = s.choose(nil)
	s.runUntil(nil)
	s.main = false
	if s.failure == nil {
		err := errors.New("the check has ended its goroutine")
		s.spawn("check", func() { err = check() })
		s.next = s.live[0]
		s.runUntil(nil)
		if s.failure == nil {
			s.failure = err
		}
	}
	return s
}

// Settle returns when no other goroutine can go on, not even one that pauses: all have ended, or
// wait for what does not come. One goroutine at a time may call it, in the scenario or in its
// check.
func Settle() {
	s, me := active, active.current
	s.suspend("settles", func() bool {
		for _, t := range s.live {
			if t != me && (t.pauses || t.enabled()) {
				return false
			}
		}
		return true
	}, false)
}

// Alone calls f, and reports whether no other goroutine has run meanwhile.
func Alone(f func()) bool {
	before := active.resumed
	f()
	return active.resumed == before
}

// runUntil runs threads until the given one has ended, or all have, or the run has failed.
func (s *run) runUntil(last *thread) {
	if last != nil {
		s.next = last
	}
	for s.next != nil && s.failure == nil && (last == nil || !last.ended) {
		t := s.next
		s.current, s.next = t, nil
		s.resumed++
		t.resume()
		s.current = nil
		if t.ended {
			t.free()
		}
	}
	if s.failure == nil && s.next == nil && len(s.live) > 0 {
		s.fail(fmt.Errorf("deadlock: %s waits for ever", s.live[0].name))
	}
}

func (s *run) spawn(name string, f func()) {
	s.threads++
	t := &thread{id: s.threads, name: name, f: f}
	t.routine = newRoutine(t)
	s.live = append(s.live, t)
	s.by.spawned(t)
}

// Go makes a thread of a goroutine that the library starts.
func (s *run) Go(f func()) { s.spawn(fmt.Sprint("go", s.threads+1), f) }

// Point lets the strategy choose the thread that goes on.
func (s *run) Point() {
	me := s.current
	n := &s.points
	if !s.main {
		n = &s.quiet
	}
	if *n++; *n > maxPoints {
		s.fail(fmt.Errorf("%d points in one schedule: %s is in an endless loop", *n, me.name))
		s.leave(me, nil)
	}
	if !s.main {
		return
	}
	me.at++
	if s.by.stays(s, me) {
		s.note("")
		return
	}
	if next := s.choose(me); next != me {
		s.note("is interrupted")
		s.leave(me, next)
		return
	}
	s.note("")
}

// Sleep suspends the current thread until the condition holds.
func (s *run) Sleep(what string, until func() bool) {
	if until() {
		return
	}
	s.suspend(what, until, false)
}

// Pause suspends the current thread until the condition holds or no other thread can run.
func (s *run) Pause(until func() bool) {
	if !until() {
		s.suspend("pauses", until, true)
	}
}

func (s *run) suspend(what string, until func() bool, pauses bool) {
	me := s.current
	me.at++
	s.note(what)
	me.until, me.pauses = until, pauses
	s.asleep++
	if next := s.choose(nil); next != me {
		s.leave(me, next)
	}
	s.asleep--
	me.until, me.pauses = nil, false
}

// leave lets next run, and returns when a thread lets me run.
func (s *run) leave(me, next *thread) {
	s.next = next
	me.leave(struct{}{})
}

// ended is called when t has ended, on its coroutine.
func (s *run) ended(t *thread) {
	t.at++
	for i, other := range s.live {
		if other == t {
			s.live = append(s.live[:i], s.live[i+1:]...)
			break
		}
	}
	s.note("ends")
	s.next = s.choose(nil)
}

// fail ends the run with err, when the current thread leaves. Threads that have not ended are
// not resumed.
func (s *run) fail(err error) {
	if s.failure == nil {
		s.failure = err
	}
}

// choose returns the thread that runs next, or nil if none can run. me is the current thread if
// it can go on, else nil. choose records what is not the default: that me goes on, and
// otherwise that the first thread that can run does. In Setup and in the check no thread is
// interrupted; if Setup or the check sleeps, the newest runs.
func (s *run) choose(me *thread) *thread {
	options := s.options[:0]
	if me != nil {
		options = append(options, me)
	}
	for _, t := range s.live {
		if t != me && t.enabled() {
			options = append(options, t)
		}
	}
	if len(options) == 0 {
		for _, t := range s.live {
			if t.pauses {
				options = append(options, t)
			}
		}
	}
	s.options = options
	if len(options) == 0 {
		return nil
	}
	if !s.main {
		if options[0] == me || options[0] == s.live[0] {
			return options[0]
		}
		return options[len(options)-1]
	}
	next := s.by.pick(me, options)
	if next != options[0] {
		m := move{to: next.id}
		if s.current != nil {
			m.of, m.at = s.current.id, s.current.at
		}
		s.moves = append(s.moves, m)
	}
	return next
}

// note records a step of the current thread, with its file and line, if a schedule is replayed.
func (s *run) note(what string) {
	if !s.record || !s.main {
		return
	}
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.File, "internal/sched/") && !strings.Contains(f.File, "proof/explore/") || !more {
			file := f.File[strings.LastIndexByte(f.File[:max(0, strings.LastIndexByte(f.File, '/'))], '/')+1:]
			s.steps = append(s.steps, strings.TrimSpace(fmt.Sprintf("%-12s %s:%d %s", s.current.name, file, f.Line, what)))
			return
		}
	}
}
