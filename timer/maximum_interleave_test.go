//go:build interleave

package timer

import (
	"fmt"
	"testing"
	"time"

	"github.com/delayedop/purgatory/proof/explore"
)

// While AddAt refuses an entry because it is scheduled already, another entry can take the
// last place below the limit.
func TestARefusedEntryTakesNoPlaceEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		timer, err := NewManualTimer(WithShards(2), WithMaxPending(2))
		if err != nil {
			return func() error { return err }
		}
		scheduled, neighbour := newTask(nil), newTask(nil)
		scheduled.inShard(0)
		neighbour.inShard(1)
		first := timer.AddAt(&scheduled.TaskEntry, 0, time.Hour)
		var again, added error
		spawn("adder of the scheduled one", func() { again = timer.AddAt(&scheduled.TaskEntry, 0, time.Hour) })
		spawn("adder of its neighbour", func() { added = timer.AddAt(&neighbour.TaskEntry, 0, time.Hour) })
		return func() error {
			if first != nil || added != nil || again == nil || timer.pending.Load() != 2 {
				return fmt.Errorf("first %v, again %v, neighbour %v, %d counted", first, again, added, timer.pending.Load())
			}
			return nil
		}
	}
	t.Cleanup(explore.Close)
	r := explore.Exploration{Setup: setup, Preemptions: 4}.Explore()
	if r.Failure != nil {
		t.Fatalf("%v, after %d schedules; replay %s", r.Failure, r.Schedules, r.Schedule)
	}
	t.Logf("%d schedules", r.Schedules)
}

// Of two that come to the last place of a timer one is refused, on whatever shards they are.
func TestTwoTakeTheLastPlaceEveryInterleaving(t *testing.T) {
	for shard := range 2 {
		setup := func(spawn func(string, func())) func() error {
			timer, err := NewManualTimer(WithShards(2), WithMaxPending(1))
			if err != nil {
				return func() error { return err }
			}
			var errs [2]error
			for i := range errs {
				entry := newTask(nil)
				entry.inShard(i * shard)
				spawn(fmt.Sprint("adder ", i), func() { errs[i] = timer.AddAt(&entry.TaskEntry, 0, time.Hour) })
			}
			return func() error {
				if (errs[0] == nil) == (errs[1] == nil) || timer.Pending() != 1 || timer.pending.Load() != 1 {
					return fmt.Errorf("%v, %v; %d are pending, %d counted", errs[0], errs[1], timer.Pending(), timer.pending.Load())
				}
				return nil
			}
		}
		t.Cleanup(explore.Close)
		r := explore.Exploration{Setup: setup, Preemptions: 4}.Explore()
		if r.Failure != nil {
			t.Fatalf("%v, after %d schedules; replay %s", r.Failure, r.Schedules, r.Schedule)
		}
		t.Logf("%d schedules", r.Schedules)
	}
}
