//go:build interleave

package timer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/proof/explore"
)

// Goroutines add entries while the alarm goes off, two at once or one beside somebody who would drive the timer. Each entry
// expires when its time has come: where nobody is busy then, before the next.
func TestASharedTimerForgetsNobodyEveryInterleaving(t *testing.T) {
	for _, scenario := range []string{"nobody is busy", "two add", "one waits"} {
		setup := func(spawn func(string, func())) func() error {
			timer := newSelfDriven()
			stop := make(chan struct{})
			var err error
			var early, late, run int
			add := func(at time.Duration) {
				task := newTask(func() {
					if run++; timer.Now() < at {
						early++
					}
				})
				task.inShard(int(at / time.Millisecond)) // otherwise it is a matter of the address
				err = errors.Join(err, timer.AddAt(&task.TaskEntry, 0, at))
			}
			spawn("adder of a later one", func() { add(3 * time.Millisecond) })
			spawn("time", func() {
				sched.Advance(2 * time.Millisecond)
				if scenario == "nobody is busy" {
					sched.Pause(1, nil)
					late = 1 - run
				}
				sched.Advance(time.Millisecond)
				close(stop)
			})
			if scenario == "one waits" {
				add(3 * time.Millisecond)
				spawn("one who waits", func() { timer.AdvanceClockUntil(stop, time.Hour) })
			} else {
				spawn("adder of an earlier one", func() { add(time.Millisecond) })
			}
			return func() error {
				if err != nil || early > 0 || late > 0 || run != 2 || timer.Pending() != 0 {
					return fmt.Errorf("%v; %d of 2 have run, %d of them early and %d late, %d are pending", err, run, early, late, timer.Pending())
				}
				return nil
			}
		}
		r := explore.Exploration{Setup: setup, Preemptions: 1}.Check(t)
		t.Logf("%s: %d schedules", scenario, r.Schedules)
	}
}
