//go:build interleave

package interleave

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/sched"
)

var (
	pairBound   = flag.Int("pairs", 3, "most preemptions for two verbs")
	tripleBound = flag.Int("triples", 2, "most preemptions for three verbs")
	only        = flag.String("scenario", "", "explore this one only: verb+verb/keys")
	replay      = flag.String("replay", "", "with -scenario: run this schedule and print its steps")

	schedules, scenarios, unfinished int
)

func TestMain(m *testing.M) {
	flag.Parse()
	began := time.Now()
	status := m.Run()
	if err := goleak.Find(); err != nil && status == 0 {
		fmt.Println("interleave:", err)
		status = 1
	}
	verdict := "nothing found"
	if status != 0 {
		verdict = "FAILED"
	}
	fmt.Printf("interleave: %d schedules of %d scenarios, every one with at most %d preemptions for two verbs and %d for three, %.0f s: %s\n",
		schedules, scenarios, *pairBound, *tripleBound, time.Since(began).Seconds(), verdict)
	os.Exit(status)
}

// scenario is some verbs, each on a goroutine of its own. Where none of them registers
// the operation, it is pending when they begin.
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
	registers := false
	for _, v := range s.verbs {
		if v.fact >= 0 {
			want[v.fact] = true
		}
		registers = registers || v.name == vRegister.name || v.name == vResubmit.name
	}
	e := newEnv(s.keys, want, spawn)
	if !registers {
		_ = e.register(e.op)
	}
	for i, v := range s.verbs {
		spawn(fmt.Sprintf("%d:%s", i, v.name), func() { v.do(e) })
	}
	return e.atRest
}

func (s scenario) explore(t *testing.T, bound int) {
	if *only != "" && s.String() != *only {
		return
	}
	r := sched.Exploration{Setup: s.setup, Preemptions: bound, Replay: *replay}.Explore()
	schedules += r.Schedules
	scenarios++
	for _, step := range r.Steps {
		t.Log(step)
	}
	if r.Failure != nil {
		t.Errorf("%v: %v\nafter %d schedules; once more, with its steps:\n  make interleave ARGS='-scenario %v -replay %s'", s, r.Failure, r.Schedules, s, r.Schedule)
	} else if *only != "" {
		t.Logf("%v: %d schedules, up to %d choices each", s, r.Schedules, r.Points)
	}
}

func verbs(keys int) []verb {
	if keys == 1 {
		return []verb{vRegister, vCheck, vSignal, vForce, vCancel, vForKey, vExpire, vExtend, vClose, vPurge}
	}
	return []verb{vRegister, vCheck, vCheck2, vSignal, vSignal2, vForce, vCancel, vForKey, vExpire, vExtend, vClose, vPurge}
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

// A signal that changes nothing, and one that does; two operations on a list that
// comes and goes (KAFKA-2253); an operation that is refused and submitted elsewhere.
func TestOthers(t *testing.T) {
	for _, s := range []scenario{
		{[]verb{vNudge, vSignal}, 1},
		{[]verb{vNudge, vSignal, vSignal2}, 2},
		{[]verb{vRegister, vNudge, vSignal}, 1},
		{[]verb{vOther, vForce, vCheck}, 1},
		{[]verb{vOther, vCheck, vCheck2}, 2},
		{[]verb{vRegister, vOther, vForce, vCheck}, 1},
		{[]verb{vRegister, vOther, vClose, vSignal}, 2},
		{[]verb{vRegister, vOther, vExpire, vCheck}, 1},
		{[]verb{vResubmit, vClose, vCheck}, 1},
		{[]verb{vResubmit, vClose, vCheck}, 2},
		{[]verb{vResubmit, vClose, vForKey}, 2},
		{[]verb{vResubmit, vClose, vSignal}, 2},
	} {
		s.explore(t, *tripleBound-max(0, len(s.verbs)-3))
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
