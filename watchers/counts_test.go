package watchers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

func TestTotalsAreSumsOfShardsThatDiffer(t *testing.T) {
	w := newMap(0)
	a, b := twoKeys(w)
	wait(t, w, a)
	wait(t, w, a)
	wait(t, w, b)
	for key, n := range map[int]int64{a: 3, b: 5} {
		hash := w.Hash(key)
		for range n {
			w.Ask(w.at(key, everyPosition), false)
			w.Early(hash, machine.Satisfied)
		}
		var walk *Visit[int]
		begin(w, &walk, key, everyPosition, 8)
		walk.Next(nil, int(10*n), false)
	}
	w.Ask(Wait[int]{-1, everyPosition, w.Hash(a)}, false) // nobody waits for it
	want := Totals[int]{Accepted: 11, Pending: 3, Unanswered: 3, Ended: ended{machine.Satisfied: 8}, Keys: 2, Watched: 3, Checks: 80, Wasted: 80, Signals: 9, Inside: 2}
	assert.Equal(t, want, totals(w))
}

// A shard for which no operation has waited yet has no keys to walk over.
func TestAnUnusedShardHasNoKeys(t *testing.T) {
	s := newMap(0).shard(0)
	require.True(t, pass(s))
	for k := range s.all.Each(0) {
		assert.Fail(t, "a key", "%v", k)
	}
}

// An operation counts as ended in the shard of the key that was checked, and as accepted
// in the shard of its first key. The sums over all shards are right.
func TestTotalsAreRightAcrossShards(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	first, second := wait(t, w, a, b), wait(t, w, b)
	w.Early(w.Hash(a), machine.Forced)
	got := totals(w)
	assert.EqualValues(t, 2, got.Pending)
	assert.EqualValues(t, 3, got.Accepted)
	assert.Equal(t, ended{machine.Forced: 1}, got.Ended)
	end(w, b, first)
	end(w, b, ending(second, machine.Cancelled))
	got = totals(w)
	assert.Zero(t, got.Pending)
	assert.EqualValues(t, 3, got.Accepted)
	assert.Equal(t, ended{machine.Forced: 1, machine.Satisfied: 1, machine.Cancelled: 1}, got.Ended)
	assert.Zero(t, got.Watched)
	w.shard(w.Hash(a)).mu.ended[machine.Forced]++
	assert.Zero(t, totals(w).Pending, "read while operations came and went")
}
