//go:build interleave

package timer

import (
	"fmt"
	"testing"
	"time"

	"github.com/delayedop/purgatory/proof/explore"
)

// The first entry of a shard is added while the timer stops: it is refused, or Stop returns it.
func TestAShardThatIsMadeBesideStopEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		timer, err := NewManualTimer(WithShards(2))
		if err != nil {
			return func() error { return err }
		}
		tt := newTask(nil)
		var added error
		var unfired []any
		spawn("adder", func() { added = timer.AddAt(&tt.TaskEntry, 0, time.Hour) })
		spawn("stop", func() { unfired = timer.Stop() })
		return func() error {
			if timer.Pending() != 0 || (added == nil) != (len(unfired) == 1) {
				return fmt.Errorf("added %v, %d unfired, %d pending", added, len(unfired), timer.Pending())
			}
			return nil
		}
	}
	exploreAll(t, setup)
}

// The first goroutine that drives a timer comes while the timer stops: it does not wait for an hour, and the timer does not count as
// one that is driven.
func TestADriverThatComesBesideStopEveryInterleaving(t *testing.T) {
	exploreAll(t, func(spawn func(string, func())) func() error {
		timer, err := NewSystemTimer(WithShards(1))
		if err != nil {
			return func() error { return err }
		}
		spawn("driver", func() { timer.AdvanceClock(time.Hour) })
		before := live.Load()
		spawn("stop", func() { timer.Stop() })
		return func() error {
			if driven := live.Load() - before; driven != 0 {
				return fmt.Errorf("%d timers count as driven", driven)
			}
			return nil
		}
	})
}

func exploreAll(t *testing.T, setup func(spawn func(string, func())) func() error) {
	t.Helper()
	explore.Exploration{Setup: setup, Preemptions: 4}.Check(t)
}
