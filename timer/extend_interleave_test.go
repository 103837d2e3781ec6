//go:build interleave

package timer

import (
	"fmt"
	"testing"
	"time"

	"github.com/delayedop/purgatory/proof/explore"
)

// Two goroutines give an operation its first deadline, and a third one ends it. The entry is scheduled
// once, and is not when all have returned.
func TestTwoFirstDeadlinesEveryInterleaving(t *testing.T) {
	for _, used := range []bool{false, true} { // whether the entry's shard is there
		setup := func(spawn func(string, func())) func() error {
			timer, err := NewManualTimer(WithMaxPending(5))
			if err != nil {
				return func() error { return err }
			}
			if used {
				timer.shard(0)
			}
			_, e := untimed(t)
			var first, second, cancelled bool
			spawn("first", func() { first = timer.Extend(e, time.Second) })
			spawn("second", func() { second = timer.Extend(e, time.Minute) })
			spawn("end", func() { cancelled = timer.Cancel(e) })
			return func() error {
				if timer.Pending() != 0 || timer.pending.Load() != 0 || e.entry.Next != nil || timer.Extend(e, time.Hour) || cancelled != (first || second) {
					return fmt.Errorf("first %v, second %v, cancelled %v, %d pending, %d counted", first, second, cancelled, timer.Pending(), timer.pending.Load())
				}
				return nil
			}
		}
		explore.Exploration{Setup: setup, Preemptions: 3}.Check(t)
	}
}
