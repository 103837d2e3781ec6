//go:build interleave

package programs

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/internal/watchdog"
	"github.com/delayedop/purgatory/proof/explore"
)

var (
	duration  = flag.Duration("for", 2*time.Second, "how long to draw programs")
	first     = flag.Uint64("seed", 0, "seed of the first program; 0: from the clock")
	schedules = flag.Int("schedules", 100, "random schedules for each program")
	patience  = flag.Duration("shrink", time.Minute, "how long to look for a smaller program that fails")
	one       = flag.String("replay", "", "run what a failure has printed, with its steps")
)

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetMemoryLimit(1 << 30)
	status := watchdog.Over(m).Run()
	explore.Close()
	os.Exit(status)
}

// exploration returns p as a scenario.
func exploration(p *program) explore.Exploration {
	return explore.Exploration{Setup: func(spawn func(string, func())) func() error {
		w := newWorld(p, explore.Settle, sched.Advance)
		w.before()
		for i, steps := range p.goroutines[1:] {
			if len(steps) > 0 {
				spawn(fmt.Sprint("g", i+1), func() { w.run(steps) })
			}
		}
		last := func() {
			w.judge()
			w.finish()
		}
		if !p.awaits() {
			return func() error { last(); return w.atRest() }
		}
		spawn("last", func() { // when the others have ended or wait
			explore.Settle()
			last()
			explore.Settle()
			sched.Advance(time.Second) // a worker may linger that was started beside the end
		})
		return w.atRest
	}}
}

func TestPrograms(t *testing.T) {
	if *one != "" {
		replay(t, *one)
		return
	}
	seed := *first
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	began, programs, ran, distinct := time.Now(), 0, 0, 0
	var small, large pace
	for ; time.Since(began) < *duration; seed++ {
		p, before := draw(seed), used()
		r := exploration(p).Random(seed, *schedules)
		programs++
		ran += r.Schedules
		distinct += r.Distinct
		if p.crowd > 0 || len(p.goroutines) > 5 {
			large.add(r.Schedules, used()-before)
		} else {
			small.add(r.Schedules, used()-before)
		}
		if r.Failure != nil {
			report(t, p, r, seed)
			break
		}
	}
	t.Logf("%d programs, %d schedules, %d of them distinct, in %.0f s; for each second of processor time %v of two to four goroutines, %v of more or of a crowd",
		programs, ran, distinct, time.Since(began).Seconds(), small, large)
}

// pace is how many schedules took how long.
type pace struct {
	schedules int
	seconds   float64
}

func (p *pace) add(schedules int, seconds float64) {
	p.schedules += schedules
	p.seconds += seconds
}

func (p pace) String() string { return fmt.Sprintf("%.0f", float64(p.schedules)/p.seconds) }

// used returns how many seconds of processor time the process has used.
func used() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// report shrinks a failure and prints it.
func report(t *testing.T, p *program, r explore.Result, seed uint64) {
	schedules := r.Schedules
	kept, r := shrink(p, r, seed)
	t.Errorf("%v\n%vprogram %d, schedule %d of it; once more, with its steps:\n  make explore ARGS='-replay %s'",
		r.Failure, kept.of(p), seed, schedules, token(seed, kept, r.Schedule))
}

func replay(t *testing.T, text string) {
	if family, _, _ := strings.Cut(text, "/"); slices.Contains([]string{"future", "runner", "pool", "timer"}, family) {
		t.Skip("the replay is of another family")
	}
	seed, kept, schedule, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p := kept.of(draw(seed))
	t.Logf("program %d:\n%v", seed, p)
	r := exploration(p).Replay(schedule)
	for _, s := range r.Steps {
		t.Log(s)
	}
	if r.Failure != nil {
		t.Error(r.Failure)
	}
}

// A replay needs what a run does to depend on its seed and on nothing else: no address, no
// other source of randomness, no garbage collection.
func TestRunsDependOnTheirSeedsOnly(t *testing.T) {
	for seed := range uint64(300) {
		e := exploration(draw(seed))
		first := e.Random(seed, 2)
		runtime.GC()
		if again := e.Random(seed, 2); again.Points != first.Points {
			t.Errorf("%v%d points, and then %d", draw(seed), first.Points, again.Points)
		}
	}
}
