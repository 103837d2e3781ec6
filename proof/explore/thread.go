//go:build interleave

package explore

import (
	"fmt"
	"iter"
	"runtime/debug"
)

// thread is a goroutine of a scenario.
type thread struct {
	id       int // from 1 on, in the order of spawn
	name     string
	f        func()
	at       int         // its points so far
	until    func() bool // the condition that it waits for, or nil
	pauses   bool        // it also goes on if no other thread can
	ended    bool
	priority int // PCT
	*routine
}

// enabled reports whether t can run.
func (t *thread) enabled() bool { return t.until == nil || t.until() }

// routine is the coroutine on which threads run, one after the other.
type routine struct {
	thread *thread
	resume func() (struct{}, bool) // runs the thread until it calls leave, or has ended
	leave  func(struct{}) bool     // goes back to the goroutine that has called resume
	stop   func()
	gone   bool // the thread has called runtime.Goexit; the routine ends, too
}

// spare holds routines whose thread has ended.
var spare []*routine

// newRoutine returns a routine that runs t at the first resume.
func newRoutine(t *thread) *routine {
	if n := len(spare); n > 0 {
		r := spare[n-1]
		spare = spare[:n-1]
		r.thread = t
		return r
	}
	r := &routine{thread: t}
	r.resume, r.stop = iter.Pull(func(leave func(struct{}) bool) {
		r.leave = leave
		for r.run(); leave(struct{}{}); r.run() {
		}
	})
	return r
}

// run runs one thread.
func (r *routine) run() {
	t := r.thread
	returned := false
	defer func() {
		v := recover()
		switch {
		case v != nil:
			active.fail(fmt.Errorf("%s panics: %v\n%s", t.name, v, debug.Stack()))
		case !returned: // runtime.Goexit; the routine ends when free resumes it
			r.gone = true
			defer r.leave(struct{}{})
		}
		t.ended = true
		active.ended(t)
	}()
	t.f()
	returned = true
}

// free takes r back when its thread has ended.
func (r *routine) free() {
	r.thread = nil
	if !r.gone {
		spare = append(spare, r)
		return
	}
	done := make(chan struct{})
	go func() { // iter.Pull passes the Goexit on to the goroutine that calls resume
		defer close(done)
		r.resume()
	}()
	<-done
}

// Close ends the coroutines that are kept for further runs.
func Close() {
	for _, r := range spare {
		r.stop()
	}
	spare = nil
}
