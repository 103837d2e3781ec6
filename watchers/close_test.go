package watchers

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
)

// A map that is closed accepts no operation in any shard, also in those that are used for the first
// time afterwards. It takes the further watches of operations that were accepted before, and a walk
// finds these.
func TestAClosedMapTakesOnlyFurtherWatches(t *testing.T) {
	const shards = 8
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: shards})
	wait := func(shard uint64) *Wait[int] { return &Wait[int]{int(shard), anyPosition, shard} }
	var accepted []*machine.Machine
	for i := range uint64(shards / 2) { // the others are made later
		m := newOp()
		assert.True(t, w.Watch(m, wait(i)))
		accepted = append(accepted, m)
	}
	assert.True(t, pass(w.shard(0)))
	w.config.Closed.Store(true)
	for i := range uint64(shards) {
		m := newOp()
		assert.False(t, w.Watch(m, wait(i)), "shard %d", i)
		assert.False(t, pass(w.shard(i)), "shard %d", i)
	}
	sum := totals(w)
	assert.Equal(t, []int{shards / 2, shards / 2}, []int{sum.Watched, sum.Keys}, "a refusal leaves no key")
	for i, m := range accepted {
		at := uint64(shards - 1 - i)
		assert.True(t, w.Watch(m, wait(at)))
	}
	total := totals(w)
	found := map[*machine.Machine]int{}
	for f := range w.Each(100) {
		found[f.Machine]++
	}
	assert.EqualValues(t, shards/2+1, total.Accepted)
	assert.Equal(t, shards, total.Watched)
	for _, m := range accepted {
		assert.Equal(t, 2, found[m], "under each of its keys")
	}
}
