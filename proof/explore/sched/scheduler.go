//go:build interleave

package sched

// Scheduler decides which goroutine runs. Package proof/explore has one. It runs one goroutine
// at a time, so that the types of this package need no synchronisation of their own.
type Scheduler interface {
	// Point lets another goroutine run, or not. Outside of a run it does nothing.
	Point()
	// Sleep lets others run until the condition holds. The condition must not call Point.
	// what describes the wait in the records of a run.
	Sleep(what string, until func() bool)
	// Pause lets others run until the condition holds, or none of them can run.
	Pause(until func() bool)
	// Go starts a goroutine.
	Go(f func())
}

// installed is the scheduler of the run in progress, or nil. It needs no lock: there is one
// run at a time.
var installed Scheduler

// Install makes s the scheduler; nil removes it. The time of the run begins.
func Install(s Scheduler) {
	installed, clock = s, 0
	dice.Seed(0, 0)
}

// Yield is a point at which the scheduler may let another goroutine run.
func Yield() {
	if installed != nil {
		steps++
		installed.Point()
	}
}

// PointsBehind says that there is one more point behind each operation that another goroutine may see: what is written only then, to a
// field that is not atomic, may come late for that one.
var PointsBehind bool

func behind() {
	if PointsBehind {
		Yield()
	}
}

// Go starts f on a goroutine of the scheduler, or on one of Go's outside of a run.
func Go(f func()) {
	if installed == nil {
		go f()
		return
	}
	installed.Go(f)
}

func sleep(what string, until func() bool) {
	if installed == nil {
		if until() {
			return
		}
		panic("sched: a goroutine that " + what + " would wait for ever, because no scheduler runs others")
	}
	installed.Sleep(what, until)
}
