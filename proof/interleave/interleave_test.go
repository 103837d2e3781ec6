//go:build interleave

package interleave

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/proof/explore/sched"
)

var (
	pairBound   = flag.Int("pairs", 3, "most preemptions for two verbs")
	tripleBound = flag.Int("triples", 2, "most preemptions for three verbs")
	only        = flag.String("scenario", "", "explore only this scenario: verb+verb/keys")
	replay      = flag.String("replay", "", "with -scenario: run this schedule and print its steps")
	behind      = flag.Bool("behind", false, "with -replay: the schedule is one of a scenario that has points behind what others see")
	part        = flag.String("part", "1/1", "i/n: explore only every n-th scenario, from the i-th on")

	first, nth                             int // of part
	schedules, scenarios, unfinished, seen int
)

func TestMain(m *testing.M) {
	flag.Parse()
	if _, err := fmt.Sscanf(*part, "%d/%d", &first, &nth); err != nil || first < 1 || first > nth {
		fmt.Fprintf(os.Stderr, "interleave: -part is %q, must be i/n with 1 <= i <= n\n", *part)
		os.Exit(2)
	}
	began := time.Now()
	status := watchdog.Over(m).Run()
	explore.Close()
	if err := goleak.Find(); err != nil && status == 0 {
		fmt.Println("interleave:", err)
		status = 1
	}
	verdict := "nothing found"
	if status != 0 {
		verdict = "FAILED"
	}
	fmt.Printf("interleave: %d schedules of %d scenarios (part %s), every one with at most %d preemptions for two verbs and %d for three, %.0f s: %s\n",
		schedules, scenarios, *part, *pairBound, *tripleBound, time.Since(began).Seconds(), verdict)
	os.Exit(status)
}

// registering lists the verbs that register the operation.
var registering = []string{vRegister.name, vNested.name, vFull.name, vRestless.name, vPassing.name, vCrowded.name}

// scenario is a set of verbs, each on a goroutine of its own. If none of them registers the
// operation, it is pending when they begin.
type scenario struct {
	verbs []verb
	keys  int
}

func (s scenario) String() string {
	var names []string
	for _, v := range s.verbs {
		names = append(names, v.name)
	}
	return fmt.Sprintf("%s/%d", strings.Join(names, "+"), s.keys)
}

func (s scenario) setup(spawn func(string, func())) func() error {
	want := make([]bool, s.keys)
	registers, full, maxPending := false, false, 0
	for _, v := range s.verbs {
		if v.fact >= 0 {
			want[v.fact] = true
		}
		registers = registers || slices.Contains(registering, v.name)
		full = full || v.name == vFull.name
		if v.name == vCrowded.name {
			maxPending = 1
		}
	}
	e := newEnv(s.keys, want, full, maxPending)
	if !registers {
		_ = e.register(e.op)
	}
	if slices.ContainsFunc(s.verbs, func(v verb) bool { return v.name == vQuiet.name || v.name == vCrowded.name }) {
		_ = e.register(e.other)
	}
	for i, v := range s.verbs {
		spawn(fmt.Sprintf("%d:%s", i, v.name), func() { v.do(e) })
	}
	return e.atRest
}

func (s scenario) explore(t *testing.T, bound int) { exploreOne(t, s.String(), bound, s.setup) }

// exploreOne explores a scenario, or runs the schedule of the flag -replay, unless the flags leave the scenario out. If it may be interrupted
// more than once, exploreOne explores it again, with one interruption and with points behind what others see.
func exploreOne(t *testing.T, name string, bound int, setup func(spawn func(string, func())) func() error) {
	if *only != "" && name != *only {
		return
	}
	if seen++; seen%nth != first%nth {
		return
	}
	e := explore.Exploration{Setup: setup, Preemptions: bound}
	var r explore.Result
	flags := ""
	if *replay != "" {
		sched.PointsBehind = *behind
		r = e.Replay(*replay)
	} else if r = e.Explore(); r.Failure == nil && bound > 1 {
		schedules += r.Schedules
		e.Preemptions, flags, sched.PointsBehind = 1, "-behind ", true
		r = e.Explore()
	}
	sched.PointsBehind = false
	schedules += r.Schedules
	scenarios++
	for _, step := range r.Steps {
		t.Log(step)
	}
	if r.Failure != nil {
		t.Errorf("%s: %v\nafter %d schedules; once more, with its steps:\n  make interleave ARGS='%s-scenario %s -replay %s'", name, r.Failure, r.Schedules, flags, name, r.Schedule)
	} else if *only != "" {
		t.Logf("%s: %d schedules, up to %d points each", name, r.Schedules, r.Points)
	}
}

func verbs(keys int) []verb {
	if keys == 1 {
		return []verb{vRegister, vCheck, vSignal, vForce, vCancel, vForKey, vExpire, vExtend, vClose, vPurge, vObserve}
	}
	return []verb{vRegister, vCheck, vCheck2, vSignal, vSignal2, vBoth, vForce, vCancel, vForKey, vExpire, vExtend, vClose, vPurge, vObserve}
}

func TestPairs(t *testing.T) {
	for keys := 1; keys <= 2; keys++ {
		all := verbs(keys)
		for i, a := range all {
			for _, b := range all[i:] {
				scenario{[]verb{a, b}, keys}.explore(t, *pairBound)
			}
		}
	}
}

// Scenarios beyond pairs and triples: spurious signals; two operations of a key, whose list is
// removed and created again (KAFKA-2253); a purgatory that is full; a Shutdown that waits.
func TestOthers(t *testing.T) {
	for _, s := range []scenario{
		{[]verb{vSpurious, vSignal}, 1},
		{[]verb{vSpurious, vSignal, vSignal2}, 2},
		{[]verb{vRegister, vSpurious, vSignal}, 1},
		{[]verb{vRegister, vSignal2, vBoth}, 2},
		{[]verb{vSpurious2, vSignal2}, 2},
		{[]verb{vSpurious2, vSignal, vSignal2}, 2},
		{[]verb{vSpurious2, vSpurious2, vSignal2}, 2},
		{[]verb{vRegister, vOther, vBoth}, 2},
		{[]verb{vOther, vBoth, vClose}, 2},
		{[]verb{vOther, vForce, vCheck}, 1},
		{[]verb{vOther, vCheck, vCheck2}, 2},
		{[]verb{vRegister, vOther, vForce, vCheck}, 1},
		{[]verb{vRegister, vOther, vClose, vSignal}, 2},
		{[]verb{vRegister, vOther, vExpire, vCheck}, 1},
		{[]verb{vOther, vNested, vCheck}, 1},
		{[]verb{vOther, vNested, vSignal}, 1},
		{[]verb{vOther, vNested, vForce}, 1},
		{[]verb{vOther, vNested, vClose}, 1},
		{[]verb{vOther, vNested, vShutdown}, 2},
		{[]verb{vRegister, vOther, vShutdown}, 2},
		{[]verb{vRestless, vForce}, 1},
		{[]verb{vRestless, vCheck}, 1},
		{[]verb{vRestless, vSignal}, 2},
		{[]verb{vRestless, vExpire}, 2},
		{[]verb{vPassing, vQuiet}, 2},
		{[]verb{vPassing, vQuiet, vSignal2}, 2},
		{[]verb{vFull, vRoom, vCheck}, 1},
		{[]verb{vFull, vRoom, vExpire}, 1},
		{[]verb{vFull, vOther, vRoom}, 1},
		{[]verb{vDrain, vCheck}, 1},
		{[]verb{vDrain, vSignal}, 2},
		{[]verb{vDrain, vForce}, 2},
		{[]verb{vDrain, vForKey}, 2},
		{[]verb{vDrain, vExpire}, 1},
		{[]verb{vDrain, vClose}, 2},
		{[]verb{vDrain, vPassing}, 1},
		{[]verb{vDrain, vShutdown}, 1},
		{[]verb{vRegister, vDrain, vCheck}, 1},
		{[]verb{vRegister, vDrain, vSignal}, 1},
		{[]verb{vDrain, vCheck, vSignal2}, 2},
		{[]verb{vDrain, vPassing, vClose}, 1},
	} {
		bound := *tripleBound - max(0, len(s.verbs)-3)
		if s.verbs[0].name == vRestless.name {
			bound = min(bound, 1) // each schedule is long
		}
		s.explore(t, bound)
	}
}

// Every verb beside: the verbs of another purgatory; a try that checks; Shutdown with a
// context that has ended; a timer that is full; a purgatory that is full.
func TestBesideEveryVerb(t *testing.T) {
	for keys := 1; keys <= 2; keys++ {
		for _, v := range verbs(keys) {
			scenario{[]verb{vForeign, v}, keys}.explore(t, *pairBound)
			scenario{[]verb{vShutdown, v}, keys}.explore(t, *pairBound)
			scenario{[]verb{vRegister, vShutdown, v}, keys}.explore(t, *tripleBound)
			if v.name == vRegister.name {
				continue
			}
			scenario{[]verb{vRegister, vForeign, v}, keys}.explore(t, *tripleBound)
			scenario{[]verb{vNested, v}, keys}.explore(t, *pairBound)
			scenario{[]verb{vFull, v}, keys}.explore(t, *pairBound)
			scenario{[]verb{vCrowded, v}, keys}.explore(t, *pairBound)
		}
	}
}

// A Shutdown that waits, beside every verb and one that ends what it waits for.
func TestADrainBesideEveryVerb(t *testing.T) {
	for keys := 1; keys <= 2; keys++ {
		for _, v := range verbs(keys) {
			if v.name == vRegister.name {
				v = vPassing
			}
			scenario{[]verb{vDrain, v, vForce}, keys}.explore(t, *tripleBound)
		}
	}
}

func TestTriples(t *testing.T) {
	for keys := 1; keys <= 2; keys++ {
		all := verbs(keys)
		for i, a := range all {
			for j, b := range all[i:] {
				for _, c := range all[i+j:] {
					scenario{[]verb{a, b, c}, keys}.explore(t, *tripleBound)
				}
			}
		}
	}
}
