package watchers

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/stats"
)

// A batch counts each end once, under its outcome, for every key of the operation.
func TestABatchCountsEachEndForItsKeys(t *testing.T) {
	const keys = 4
	w := New(Config[int]{Kick: func() {}, Shards: 2, Observe: stats.Config{Keys: 64, Now: func() time.Duration { return 0 }}})
	r := rand.New(rand.NewPCG(1, 5))
	var want [keys][machine.NumOutcomes]int64
	o := machine.Forced
	for range 200 {
		var machines []*machine.Machine
		var outcomes []machine.Outcome
		checked := r.IntN(keys)
		for range 1 + r.IntN(8) {
			if r.IntN(3) == 0 {
				o = machine.Forced + machine.Outcome(r.IntN(2))
			}
			of := r.Perm(keys)[:1+r.IntN(2)]
			if !slices.Contains(of, checked) {
				of[0] = checked
			}
			for _, key := range of {
				want[key][o]++
			}
			machines, outcomes = append(machines, wait(t, w, of...)), append(outcomes, o)
		}
		s := w.Shard(w.Hash(checked))
		s.Leave(machines, outcomes, make([]int, len(machines)))
	}
	var hot, expiring []stats.KeyCounts[int]
	for i := range w.slots {
		hot, expiring = w.Shard(uint64(i)).Keys(hot, expiring)
	}
	require.Len(t, hot, keys)
	require.Len(t, expiring, keys)
	for _, counts := range append(hot, expiring...) {
		assert.Equal(t, want[counts.Key], counts.Ended)
	}
}

// An operation counts as ended in the shard of the key that was checked, and as accepted
// in the shard of its first key. The sums over all shards are right.
func TestTotalsAreRightAcrossShards(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	first, second := wait(t, w, a, b), wait(t, w, b)
	require.True(t, w.Shard(w.Hash(a)).Pass(machine.Satisfied), "one that did not wait")
	sum := func() (t Totals) {
		for i := range w.slots {
			w.Shard(uint64(i)).Totals(&t)
		}
		return t
	}
	got := sum()
	assert.EqualValues(t, 2, got.Pending())
	assert.EqualValues(t, 3, got.Accepted)
	assert.Equal(t, Counts{machine.Satisfied: 1}, got.Counts)
	end(w, b, first)
	end(w, b, second)
	got = sum()
	assert.Zero(t, got.Pending())
	assert.EqualValues(t, 3, got.Accepted)
	assert.Equal(t, Counts{machine.Satisfied: 1, machine.Forced: 2}, got.Counts)
	assert.Zero(t, got.Watched)
	negative := Totals{Counts: Counts{machine.Forced: 1}}
	assert.Zero(t, negative.Pending(), "read while operations came and went")
}

// When Leave returns, an operation is out of all its lists, however many there are.
func TestLeaveUnlinksManyKeys(t *testing.T) {
	const keys = 10 * maxSteps
	all := make([]int, keys)
	for i := range all {
		all[i] = i
	}
	for _, shards := range []int{1, 8} {
		w := New(Config[int]{Kick: func() {}, Shards: shards, StaleLimit: 0})
		m, stays := wait(t, w, all...), wait(t, w, all...)
		w.Shard(w.Hash(all[0])).Leave([]*machine.Machine{m}, []machine.Outcome{machine.Forced}, make([]int, 1))
		for i := range m.Keys() {
			require.Nil(t, m.Watch(i).List())
		}
		checkInvariants(t, w)
		end(w, all[keys/2], stays)
		n, left := watched(w)
		assert.Zero(t, n+left)
		checkInvariants(t, w)
	}
}
