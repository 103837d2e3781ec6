//go:build interleave

package interleave

import (
	"testing"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/proof/explore"
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
