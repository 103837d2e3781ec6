//go:build interleave

package explore

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/sched"
)

var errLost = errors.New("an increment is lost")

// lost returns a scenario of n goroutines that each add 1 to a number, not atomically.
func lost(n int) Exploration {
	return Exploration{Setup: func(spawn func(string, func())) func() error {
		var x sched.Int64
		for i := range n {
			spawn(fmt.Sprint(i), func() { x.Store(x.Load() + 1) })
		}
		return func() error {
			if x.Load() < int64(n) {
				return errLost
			}
			return nil
		}
	}}
}

func TestFindsRepeatsAndShrinksALostUpdate(t *testing.T) {
	defer Close()
	for name, find := range map[string]func(Exploration) Result{
		"exhaustive": func(e Exploration) Result { e.Preemptions = 1; return e.Explore() },
		"random":     func(e Exploration) Result { return e.Random(1, 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{2, 10, 100} {
				if n > 10 && name == "exhaustive" {
					continue
				}
				e := lost(n)
				r := find(e)
				require.ErrorIs(t, r.Failure, errLost)
				again := e.Replay(r.Schedule)
				require.ErrorIs(t, again.Failure, errLost, r.Schedule)
				assert.Equal(t, r.Schedule, again.Schedule)
				assert.NotEmpty(t, again.Steps)
				small := e.Shrink(r)
				moves, err := parse(small.Schedule)
				require.NoError(t, err)
				assert.Len(t, moves, 1, "%d goroutines: %s", n, small.Schedule)
				assert.ErrorIs(t, e.Replay(small.Schedule).Failure, errLost)
			}
		})
	}
}

func TestRunsEveryScheduleWithinTheBound(t *testing.T) {
	defer Close()
	// Two goroutines of three steps. Without a bound there are 6!/(3!·3!) schedules.
	for bound, want := range map[int]int{-1: 2, 0: 2, 1: 6, 2: 14, 5: 20} {
		e := Exploration{Preemptions: bound, Setup: func(spawn func(string, func())) func() error {
			for i := range 2 {
				spawn(fmt.Sprint(i), func() { sched.Yield(); sched.Yield() })
			}
			return func() error { return nil }
		}}
		r := e.Explore()
		require.NoError(t, r.Failure)
		assert.Equal(t, want, r.Schedules, "%d preemptions", bound)
	}
}

func TestReportsDeadlocksPanicsAndEndlessLoops(t *testing.T) {
	defer Close()
	for want, f := range map[string]func(a, b *sched.Mutex){
		"deadlock": func(a, b *sched.Mutex) { a.Lock(); b.Lock(); b.Unlock(); a.Unlock() },
		"panics":   func(a, _ *sched.Mutex) { a.Lock(); a.Unlock(); a.Unlock() },
		"endless": func(_, _ *sched.Mutex) {
			for {
				sched.Yield()
			}
		},
	} {
		e := Exploration{Preemptions: 1, Setup: func(spawn func(string, func())) func() error {
			var a, b sched.Mutex
			spawn("ab", func() { f(&a, &b) })
			spawn("ba", func() { f(&b, &a) })
			return func() error { return nil }
		}}
		assert.ErrorContains(t, e.Explore().Failure, want)
	}
}

func TestAGoroutineMayEndByGoexitAndStartOthers(t *testing.T) {
	defer Close()
	e := Exploration{Preemptions: 2, Setup: func(spawn func(string, func())) func() error {
		started := make(chan struct{})
		ran, ended := false, false
		spawn("exits", func() {
			defer func() { ended = true }()
			sched.Go(func() { ran = true; close(started) })
			runtime.Goexit()
		})
		spawn("waits", func() { sched.Receive(started) })
		return func() error {
			if !ran || !ended {
				return fmt.Errorf("the started goroutine ran: %v, deferred functions ran: %v", ran, ended)
			}
			return nil
		}
	}}
	r := e.Explore()
	require.NoError(t, r.Failure)
	assert.Greater(t, r.Schedules, 5)
}

// A defect of depth 2 among n goroutines of k points must be met at least as often as PCT
// promises.
func TestPCTKeepsItsBound(t *testing.T) {
	defer Close()
	const n, each, runs = 6, 20, 4000
	setup := func(spawn func(string, func())) func() error {
		x, seen := 0, 0
		for i := range n {
			spawn(fmt.Sprint(i), func() {
				for step := range each {
					sched.Yield()
					if i == 0 && step == each/2 {
						seen = x
						sched.Yield()
						x = seen + 1
					} else if i == 1 && step == each/2 {
						x++
					}
				}
			})
		}
		return func() error {
			if x < 2 {
				return errLost
			}
			return nil
		}
	}
	const points = n*each + 1
	dice := rand.New(rand.NewPCG(7, 7))
	p, met := &pct{dice: dice}, 0
	for range runs {
		p.begin(2, points)
		if execute(setup, p, false).failure != nil {
			met++
		}
	}
	expected := float64(runs) / (n * points)
	assert.Greater(t, float64(met), expected-3*math.Sqrt(expected), "of %d", runs)
}

func TestAPauseLastsUntilNobodyElseCanRun(t *testing.T) {
	defer Close()
	e := Exploration{Preemptions: 2, Setup: func(spawn func(string, func())) func() error {
		ran, early, polls := 0, false, 0
		spawn("polls", func() {
			for ran < 2 {
				sched.Pause(0, nil)
				early = early || ran < 2
				polls++
			}
		})
		for i := range 2 {
			spawn(fmt.Sprint(i), func() { sched.Yield(); ran++ })
		}
		return func() error {
			if early || polls > 1 {
				return fmt.Errorf("%d polls", polls)
			}
			return nil
		}
	}}
	r := e.Explore()
	require.NoError(t, r.Failure)
	assert.Greater(t, r.Schedules, 5)
}

func TestRandomSchedulesDependOnTheSeedOnly(t *testing.T) {
	defer Close()
	e := lost(4)
	first := e.Random(3, 1000)
	assert.Equal(t, first, e.Random(3, 1000))
	assert.NotEqual(t, first.Schedule, e.Random(4, 1000).Schedule)
}

func TestEqualSchedulesCountOnceAsDistinct(t *testing.T) {
	defer Close()
	for goroutines, distinct := range map[int]int{1: 1, 2: 6} { // each reads and writes: six orders of two
		r := Exploration{Setup: func(spawn func(string, func())) func() error {
			var n sched.Int64
			for range goroutines {
				spawn("adds", func() { n.Load(); n.Add(1) })
			}
			return func() error { return nil }
		}}.Random(1, 500)
		require.NoError(t, r.Failure)
		assert.Equal(t, 500, r.Schedules)
		assert.GreaterOrEqual(t, r.Distinct, distinct)
		assert.Less(t, r.Distinct, 10*distinct)
	}
}

func BenchmarkSchedule(b *testing.B) {
	defer Close()
	e := lost(3)
	e.Setup = quiet(e.Setup)
	e.Random(1, b.N)
}

// quiet returns a scenario that never fails.
func quiet(setup func(func(string, func())) func() error) func(func(string, func())) func() error {
	return func(spawn func(string, func())) func() error {
		setup(spawn)
		return func() error { return nil }
	}
}
