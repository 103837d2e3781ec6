//go:build interleave

package timer

import (
	"errors"
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
	explore.Exploration{Setup: setup, Preemptions: 4}.Check(t)
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
		explore.Exploration{Setup: setup, Preemptions: 4}.Check(t)
	}
}

// Two goroutines add entries while the driver is late, and both have read since when. One of them has a stand-in flush, and
// no stand-in does for a driver that has woken up.
func TestTwoCallAStandInEveryInterleaving(t *testing.T) {
	for _, wakes := range []bool{false, true} {
		setup := func(spawn func(string, func())) func() error {
			timer, err := NewSystemTimer(WithShards(1))
			if err != nil {
				return func() error { return err }
			}
			readings, now := 0, 20*time.Millisecond
			timer.clock = spied{timer, func() time.Duration { readings++; return now }, timer.need}
			task := newTask(nil)
			err = timer.AddAt(&task.TaskEntry, 0, 10*time.Millisecond)
			overdue := timer.late(int64(10 * time.Millisecond))
			timer.overdue.Store(overdue)
			readings = 0
			for i := range 2 {
				spawn(fmt.Sprint("adder ", i), func() { timer.callStandIn(overdue, int64(now)) })
			}
			if wakes {
				spawn("driver", func() { timer.overdue.Store(never) })
			}
			return func() error {
				defer timer.Stop()
				flushed := readings // a worker knows the reading of the flush
				awake := timer.overdue.Load() == never
				if err != nil || flushed > 1 || flushed != int(task.runs.Load()) || !wakes && flushed == 0 || wakes && !awake || timer.called.Load() || timer.standing.Load() {
					return fmt.Errorf("%v; %d flushes, the task has run %d times; overdue says that the driver is awake: %v; a stand-in is called: %v",
						err, flushed, task.runs.Load(), awake, timer.called.Load())
				}
				return nil
			}
		}
		explore.Exploration{Setup: setup, Preemptions: 2}.Check(t)
	}
}

// Two timers are given the same entry at the same moment: the one that refuses it has its place free.
func TestAnEntryOfTwoTimersTakesOnePlaceEveryInterleaving(t *testing.T) {
	refused := 0
	setup := func(spawn func(string, func())) func() error {
		var timers [2]*ManualTimer
		var errs [2]error
		tt := newTask(nil)
		for i := range timers {
			var err error
			if timers[i], err = NewManualTimer(WithMaxPending(1)); err != nil {
				return func() error { return err }
			}
			spawn(fmt.Sprint("timer ", i), func() { errs[i] = timers[i].AddAt(&tt.TaskEntry, 0, time.Hour) })
		}
		return func() error {
			for i, err := range errs {
				if (err == nil) == (errs[1-i] == nil) {
					return fmt.Errorf("both timers say %v and %v", err, errs[1-i])
				}
				if err == nil {
					continue
				}
				refused++
				if err := timers[i].AddAt(&newTask(nil).TaskEntry, 0, time.Hour); err != nil {
					return fmt.Errorf("it has refused the entry, and then one that has room: %w", err)
				}
			}
			return nil
		}
	}
	r := explore.Exploration{Setup: setup, Preemptions: 3}.Check(t)
	if refused == 0 {
		t.Fatal("no timer has refused the entry")
	}
	t.Logf("%d schedules", r.Schedules)
}

// Of two who add a new entry to a timer, the second is told that it is scheduled, and of no other timer.
func TestANewEntryThatTwoAddEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		timer, err := NewManualTimer()
		if err != nil {
			return func() error { return err }
		}
		tt := newTask(nil)
		var errs [2]error
		for i := range errs {
			spawn(fmt.Sprint("adder", i), func() { errs[i] = timer.AddAt(&tt.TaskEntry, 0, time.Hour) })
		}
		return func() error {
			if errs != [2]error{nil, errScheduled} && errs != [2]error{errScheduled, nil} {
				return fmt.Errorf("%v", errs)
			}
			return nil
		}
	}
	explore.Exploration{Setup: setup, Preemptions: 3}.Check(t)
}

// A stranger adds an idle entry while its own timer adds, extends and cancels it. It is in that one or in none, which
// counts it so.
func TestAnIdleEntryAndAStrangerEveryInterleaving(t *testing.T) {
	setup := func(spawn func(string, func())) func() error {
		var timers [2]*ManualTimer
		for i := range timers {
			var err error
			if timers[i], err = NewManualTimer(WithMaxPending(3)); err != nil {
				return func() error { return err }
			}
		}
		own, other, tt := timers[0], timers[1], newTask(nil)
		if err := own.AddAt(&tt.TaskEntry, 0, time.Hour); err != nil || !own.Cancel(&tt.TaskEntry) {
			return func() error { return fmt.Errorf("%v", err) }
		}
		var strange, err error
		cancelled := 0
		spawn("other", func() { strange = other.AddAt(&tt.TaskEntry, 0, time.Hour) })
		spawn("own", func() { err = own.AddAt(&tt.TaskEntry, 0, time.Hour) })
		spawn("canceller", func() {
			own.Extend(&tt.TaskEntry, time.Minute)
			if own.Cancel(&tt.TaskEntry) {
				cancelled++
			}
		})
		return func() error {
			pending := own.Pending()
			if err != nil || pending != 1-cancelled || own.pending.Load() != int64(pending) || other.Pending() != 0 || other.pending.Load() != 0 {
				return fmt.Errorf("%v; cancelled %d times, %d are pending and %d counted", err, cancelled, pending, own.pending.Load())
			}
			if !errors.Is(strange, errForeign) {
				return fmt.Errorf("the other timer says %w", strange)
			}
			return nil
		}
	}
	explore.Exploration{Setup: setup, Preemptions: 3}.Check(t)
}
