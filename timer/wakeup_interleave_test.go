//go:build interleave

package timer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/delayedop/purgatory/proof/explore"
)

// In Tokio #6682, an addition between the driver's look at a shard and its sleep was missed.
// That window is too short for a test with real goroutines, so this test explores all
// interleavings. The driver has woken up at tick 5 and computes the next wake-up, while other
// goroutines add entries.
func TestTokio6682EveryInterleaving(t *testing.T) {
	for _, ticks := range [][]int64{{7}, {7, 9}, {9, 7}} {
		t.Run(fmt.Sprint(ticks), func(t *testing.T) {
			setup := func(spawn func(string, func())) func() error {
				timer, err := NewSystemTimer(WithShards(2))
				if err != nil {
					return func() error { return err }
				}
				now := 5 * time.Millisecond
				timer.clock = spied{timer, func() time.Duration { return now }, timer.need}
				timer.wake.Store(int64(5 * time.Millisecond))
				slept := int64(never)
				spawn("driver", func() { slept = timer.nextWake() })
				for i, tick := range ticks {
					tt := newTask(nil)
					tt.inShard(i)
					spawn(fmt.Sprint("adder of ", tick), func() {
						if err := timer.AddAt(&tt.TaskEntry, now, time.Duration(tick)*time.Millisecond); err != nil {
							panic(err)
						}
					})
				}
				return func() error {
					defer timer.Stop()
					earliest := min(ticks[0], ticks[len(ticks)-1]) * int64(time.Millisecond)
					if slept > earliest && len(timer.wakeup) == 0 {
						return fmt.Errorf("the driver sleeps until %d, and nobody wakes it at %d", slept, earliest)
					}
					return nil
				}
			}
			explore.Exploration{Setup: setup, Preemptions: 3}.Check(t)
		})
	}
}

// Two goroutines lower the next of the same shard: the earlier tick remains.
func TestTheEarlierOfTwoAdditionsWinsEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		timer, err := NewSystemTimer(WithShards(1))
		if err != nil {
			return func() error { return err }
		}
		for _, tick := range []int64{7, 9} {
			tt := newTask(nil)
			spawn(fmt.Sprint("adder of ", tick), func() {
				if err := timer.AddAt(&tt.TaskEntry, 0, time.Duration(tick)*time.Millisecond); err != nil {
					panic(err)
				}
			})
		}
		return func() error {
			defer timer.Stop()
			if next := timer.next(); next != int64(7*time.Millisecond) {
				return fmt.Errorf("the clock is needed at 7, and next is %d", next)
			}
			return nil
		}
	}
	explore.Exploration{Setup: setup, Preemptions: 4}.Check(t)
}

// The runtime may keep a stand-in from running, as it has kept the driver: then the next
// addition, after as long a time, starts another one. One that flushes is not replaced.
func TestAStandInThatDoesNotRunIsReplacedEveryInterleaving(t *testing.T) {
	const late, later = 10 * time.Millisecond, 20 * time.Millisecond
	replaced, most := 0, 0
	setup := func(spawn func(string, func())) func() error {
		timer, err := NewSystemTimer(WithShards(1))
		if err != nil {
			return func() error { return err }
		}
		flushed := 0
		timer.clock = spied{timer, func() time.Duration {
			if timer.standing.Load() {
				flushed++
			}
			return late
		}, timer.need}
		if err := timer.AddAt(&newTask(nil).TaskEntry, 0, time.Millisecond); err != nil {
			return func() error { return err }
		}
		asleep(timer, time.Millisecond)
		for _, now := range []time.Duration{late, later} {
			spawn(fmt.Sprint("adder at ", now), func() {
				if err := timer.AddAt(&newTask(nil).TaskEntry, now, time.Hour); err != nil {
					panic(err)
				}
				if timer.called.Load() && timer.pool.Running() == 2 {
					replaced++
				}
			})
		}
		return func() error {
			defer timer.Stop()
			if !timer.Idle() {
				return errors.New("a stand-in has not ended, or was not called")
			}
			if flushed == 0 {
				return fmt.Errorf("no stand-in has flushed")
			}
			most = max(most, flushed)
			return nil
		}
	}
	r := explore.Exploration{Setup: setup, Preemptions: 2}.Check(t)
	if replaced == 0 {
		t.Fatalf("in none of %d schedules is a stand-in replaced", r.Schedules)
	}
	t.Logf("%d schedules, in %d of them a stand-in is replaced; up to %d flush", r.Schedules, replaced, most)
}
