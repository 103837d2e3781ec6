//go:build interleave

package observe

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
)

// Two add functions while the goroutine that calls them comes to its end, and somebody waits until the queue is idle. What a function does
// beside returning makes no difference: when both are added and the queue is idle, both have been called, one at a time, and none waits.
func TestAnIdleQueueHasCalledEverythingEveryInterleaving(t *testing.T) {
	t.Cleanup(explore.Close)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // it gets the panics
	t.Cleanup(func() { slog.SetDefault(before) })
	for name, odd := range map[string]func(){"returns": func() {}, "panics": func() { panic("of the test") }, "exits": runtime.Goexit} {
		setup := func(spawn func(string, func())) func() error {
			var q Queue
			var began, called []int
			most, running := 0, 0
			add := func(i int, end func()) {
				q.Add(func() {
					running++
					most = max(most, running)
					began = append(began, i)
					defer func() { running-- }()
					sched.Yield()
					called = append(called, i)
					end()
				})
			}
			add(0, odd)
			added, n := make(chan struct{}), 0
			for i := 1; i <= 2; i++ {
				spawn(fmt.Sprint("adds ", i), func() {
					add(i, odd)
					if n++; n == 2 {
						close(added)
					}
				})
			}
			var found error
			sees := func(when string) {
				if all := slices.Sorted(slices.Values(called)); most != 1 || running != 0 || !slices.Equal(all, []int{0, 1, 2}) || !slices.Equal(began, called) || len(q.mu.waiting) > 0 {
					found = fmt.Errorf("%s: %d run, %d at once, %v have been called, %d wait", when, running, most, called, len(q.mu.waiting))
				}
			}
			spawn("shutdown", func() {
				never := make(chan struct{})
				for sched.Receive(added); !q.Idle(); {
					sched.Pause(0, never)
				}
				sees("idle")
			})
			return func() error {
				if sees("at last"); !q.Idle() || q.Dropped() != 0 {
					return fmt.Errorf("idle: %v", q.Idle())
				}
				return found
			}
		}
		preemptions := 2
		if name == "exits" { // there each function has a goroutine
			preemptions = 1
		}
		r := explore.Exploration{Setup: setup, Preemptions: preemptions}.Explore()
		if r.Failure != nil {
			t.Fatalf("%s: %v, after %d schedules; replay %s", name, r.Failure, r.Schedules, r.Schedule)
		}
		t.Logf("a function that %s: %d schedules", name, r.Schedules)
	}
}
