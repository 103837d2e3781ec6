//go:build interleave

package explore

import (
	"fmt"
	"testing"
)

// Exploration is a scenario and the bounds within which to explore its schedules.
type Exploration struct {
	// Setup creates the objects of one run and calls spawn for each goroutine. These
	// goroutines may call spawn too. It returns a check of what must hold when all
	// goroutines have ended. What happens must depend on nothing but the schedule.
	Setup       func(spawn func(name string, f func())) (check func() error)
	Preemptions int // Explore: the largest number of preemptions in a schedule, none if it is negative
	Limit       int // Explore: the largest number of schedules, 0: no limit
}

// Result is the result of an exploration.
type Result struct {
	Schedules int      // how many schedules were run
	Distinct  int      // Random: how many of them differ
	Points    int      // the largest number of points in a schedule
	Failure   error    // the failure of the first schedule that failed
	Schedule  string   // that schedule, for Replay
	Steps     []string // its steps, if it was replayed
	Limited   bool     // the limit was reached before all schedules were run
}

// add counts the run s, and reports whether it has failed.
func (r *Result) add(s *run) (failed bool) {
	r.Schedules++
	r.Points = max(r.Points, s.points)
	r.Steps = s.steps
	if s.failure != nil {
		r.Failure, r.Schedule = s.failure, format(s.moves)
	}
	return s.failure != nil
}

// Explore runs the scenario under every schedule within the bound on preemptions, depth first:
// each run repeats the choices of the previous run up to the last choice that has an untried
// option, and takes that option. It stops at the first failure.
func (e Exploration) Explore() (r Result) {
	by := &exhaustive{bound: e.Preemptions}
	for {
		if r.add(execute(e.Setup, by, false)) || !by.next() {
			return r
		}
		if r.Schedules == e.Limit {
			r.Limited = true
			return r
		}
	}
}

// Check is Explore for a test: it fails t at the first failure, and closes what was explored when t is over.
func (e Exploration) Check(t testing.TB) Result {
	t.Helper()
	t.Cleanup(Close)
	r := e.Explore()
	if r.Failure != nil {
		t.Fatalf("%v, after %d schedules; replay %s", r.Failure, r.Schedules, r.Schedule)
	}
	t.Logf("%d schedules", r.Schedules)
	return r
}

// Replay runs one schedule and records its steps.
func (e Exploration) Replay(schedule string) (r Result) {
	moves, err := parse(schedule)
	if err != nil {
		return Result{Failure: err}
	}
	r.add(execute(e.Setup, &replay{moves: moves}, true))
	return r
}

// exhaustive chooses every option of every choice in turn.
type exhaustive struct {
	bound   int
	choices []choice

	at          int // index of the next choice
	preemptions int
}

// choice is a point of a schedule at which several goroutines could run: the option taken and
// the number of options. If the current goroutine can go on, it is option 0.
type choice struct{ taken, of uint8 }

// next prepares the next schedule. It reports false if there is none.
func (x *exhaustive) next() bool {
	for len(x.choices) > 0 && x.choices[len(x.choices)-1].taken+1 == x.choices[len(x.choices)-1].of {
		x.choices = x.choices[:len(x.choices)-1]
	}
	if len(x.choices) == 0 {
		return false
	}
	x.choices[len(x.choices)-1].taken++
	x.at, x.preemptions = 0, 0
	return true
}

func (x *exhaustive) spawned(*thread) {}

func (x *exhaustive) stays(*run, *thread) bool { return x.preemptions >= x.bound }

func (x *exhaustive) pick(me *thread, options []*thread) *thread {
	if len(options) == 1 {
		return options[0]
	}
	if x.at == len(x.choices) {
		x.choices = append(x.choices, choice{of: uint8(len(options))})
	}
	c := x.choices[x.at]
	if int(c.of) != len(options) {
		panic(fmt.Sprintf("explore: the scenario is not deterministic: choice %d had %d options, has %d", x.at, c.of, len(options)))
	}
	x.at++
	if me != nil && c.taken > 0 {
		x.preemptions++
	}
	return options[c.taken]
}
