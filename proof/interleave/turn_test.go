//go:build interleave

package interleave

import (
	"errors"
	"fmt"
	"testing"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/purgatorytest/forgotten"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/proof/explore"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// TestATurnThatFindsNobody explores two checks in order of a key that no operation waits for, and
// that is in the map because a walk stands in it. An operation that is registered meanwhile gets
// the item: a check that leaves its work to the other is not lost.
func TestATurnThatFindsNobody(t *testing.T) {
	const name = "inorder+inorder"
	if *only != "" && *only != name {
		return
	}
	setup := func(spawn func(string, func())) func() error {
		e := newEnv(1, []bool{true}, false, 0)
		key := e.keys[0]
		all := watchersOf(e.p)
		shard := all.Shard(all.Hash(key))
		var walk watchers.Cursor[int]
		gone := []*op{{e: e, keys: e.keys}, {e: e, keys: e.keys}}
		for _, o := range gone {
			_ = e.register(o)
		}
		var out [1]*machine.Machine
		list, _ := shard.Lock(key, all.Hash(key))
		_, _ = list.Begin(&walk, watchers.EveryPosition, out[:])
		for _, o := range gone {
			e.p.ForceComplete(o)
		}
		spawn("checks", func() { e.p.CheckAndCompleteInOrder(key) })
		spawn("registers", func() {
			_ = e.register(e.op)
			sched.Yield()
			e.facts[0] = true
			e.p.CheckAndCompleteInOrder(key)
		})
		return func() error {
			if e.op.Outcome() != operation.Satisfied {
				e.fail("the operation waits, and so does its item")
			}
			walk.Stop()
			return e.atRest()
		}
	}
	r := run(explore.Exploration{Setup: setup, Preemptions: *pairBound})
	schedules += r.Schedules
	scenarios++
	if r.Failure != nil {
		t.Errorf("%s: %v\nafter %d schedules; once more:\n  make interleave ARGS='-scenario %s -replay %s'", name, r.Failure, r.Schedules, name, r.Schedule)
	}
}

// item is an operation that takes an item, if there is one.
type item struct {
	operation.DelayedOperation
	e         *env
	items     *int
	took      int
	completed int
	expired   int
}

func (i *item) TryComplete() bool {
	sched.Yield()
	if *i.items == 0 {
		return false
	}
	*i.items--
	i.took++
	return true
}

func (i *item) OnComplete()   { i.completed++; sched.Yield() }
func (i *item) OnExpiration() { i.expired++ }

// TestALineBesideItsTimeouts explores a check in order beside the clock, which makes the first in line expire, and beside a
// third verb. Whoever comes first ends each operation, once; an item goes to nobody whose deadline has passed before the check,
// and is not left beside the one that waits; and in a test that puts an item, nobody is blamed for a forgotten check.
func TestALineBesideItsTimeouts(t *testing.T) {
	thirds := map[string]func(e *env, first *item){
		"":        nil,
		"cancel":  func(e *env, first *item) { e.p.Cancel(first, errCause) },
		"extend":  func(e *env, first *item) { e.p.Extend(first, longer) },
		"inspect": func(e *env, _ *item) { _ = e.p.Inspect(2, 4) },
		"check":   func(e *env, _ *item) { e.p.CheckAndComplete(e.keys[0]) },
	}
	explored := func(third string, alone bool) { // alone: nobody stands behind the first in line
		does, name := thirds[third], fmt.Sprintf("line+clock+%s/%t", third, alone)
		if *only != "" && *only != name {
			return
		}
		setup := func(spawn func(string, func())) func() error {
			e := &env{}
			e.clock, _ = timer.NewManualTimer(timer.WithWheelSize(4))
			items, put := 0, false
			judge := forgotten.New(func(text string) {
				if put {
					e.fail("blamed: %s", text)
				}
			})
			e.p, _ = purgatory.New[int]("line", purgatory.WithTimer(e.clock), purgatory.WithWatcherShards(1), purgatory.WithSignalWorkers(1),
				purgatory.WithHistograms(), purgatory.WithHook(judge.Hook()))
			e.keys = []int{1}
			first, second := &item{e: e, items: &items}, &item{e: e, items: &items}
			_, _ = e.p.TryCompleteElseWatch(first, timeout, e.keys...)
			all := []*item{first}
			if !alone {
				all = append(all, second)
				_, _ = e.p.TryCompleteElseWatch(second, 100*timeout, e.keys...)
			}
			spawn("line", func() {
				sched.Yield()
				items++
				e.p.CheckAndCompleteInOrder(1)
				put = true
			})
			spawn("clock", func() { e.p.AdvanceClock(timeout) })
			if does != nil {
				spawn(third, func() { does(e, first) })
			}
			return func() error {
				if items > 0 && !alone {
					e.fail("an item is left beside one who waits")
				}
				_ = e.p.Close()
				for _, i := range all {
					o := i.Outcome()
					if i.completed != 1 || i.took > 1 || (i.took == 1) != (o == operation.Satisfied) || (i.expired == 1) != (o == operation.Expired) {
						e.fail("%v, took %d, %d OnComplete, %d OnExpiration", o, i.took, i.completed, i.expired)
					}
				}
				s := e.p.Stats()
				if s.Accepted != s.Satisfied+s.Expired+s.Cancelled+s.Closed || s.Pending+s.Watched+s.Keys != 0 || s.Late.Count() != s.Expired || e.clock.Pending() != 0 {
					e.fail("%+v", s)
				}
				return errors.Join(e.failures...)
			}
		}
		r := run(explore.Exploration{Setup: setup, Preemptions: *tripleBound})
		schedules += r.Schedules
		scenarios++
		if r.Failure != nil {
			t.Errorf("%s: %v\nafter %d schedules; once more:\n  make interleave ARGS='-scenario %s -replay %s'", name, r.Failure, r.Schedules, name, r.Schedule)
		}
	}
	for third := range thirds {
		explored(third, false)
		explored(third, true)
	}
}
