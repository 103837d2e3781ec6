package workload

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
	"github.com/delayedop/purgatory/bench/timers"
)

// threeTurns adds a sample and a distribution in each of three turns.
var threeTurns = Family{Name: "three", run: func(r *Run) {
	for round := range 3 {
		r.turn("turn", func() {
			r.add("W", "", "peer", round, 1, map[string]float64{result.NsOp: float64(round)})
			r.keep(result.Distribution{Workload: "W", Peer: "peer", Ms: []float64{float64(round)}})
		})
	}
}}

func TestTurnsTakenApartAddUpToTheWhole(t *testing.T) {
	whole := small()
	require.NoError(t, whole.Measure(threeTurns))
	require.Len(t, whole.Set.Samples, 3)

	apart := small()
	var taken []int
	apart.Apart = func(n int) (*result.Set, error) {
		taken = append(taken, n)
		child := small()
		child.Only = n
		err := child.Measure(threeTurns)
		assert.Len(t, child.Set.Samples, 1)
		return child.Set, err
	}
	for range 2 { // each family counts from 1
		apart.Set = &result.Set{}
		require.NoError(t, apart.Measure(threeTurns))
		assert.Equal(t, whole.Set, apart.Set)
	}
	assert.Equal(t, []int{1, 2, 3, 1, 2, 3}, taken)
}

// Two at a time, and no more; what they have measured comes in their order, whichever is through first.
func TestTurnsInPairsAddUpInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := small()
		var running, most atomic.Int32
		r.Apart = func(n int) (*result.Set, error) {
			now := running.Add(1)
			defer running.Add(-1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			time.Sleep(time.Duration(10-n) * time.Second)
			set := &result.Set{}
			set.Add(result.Sample{Workload: "W", Peer: "peer", N: int64(n)})
			return set, nil
		}
		start := time.Now()
		r.inPairs(func() {
			for range 4 {
				r.turn("turn", func() { t.Error("measured here") })
			}
		})
		require.NoError(t, r.err)
		var order []int64
		for _, s := range r.Set.Samples {
			order = append(order, s.N)
		}
		assert.Equal(t, []int64{1, 2, 3, 4}, order)
		assert.EqualValues(t, 2, most.Load())
		assert.Less(t, time.Since(start), 30*time.Second, "one after the other")
		r.turn("turn", nil) // alone again
		assert.Len(t, r.Set.Samples, 5)
	})
}

func TestAPairThatFailsIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := small()
		failure := errors.New("killed")
		var taken atomic.Int32
		r.Apart = func(int) (*result.Set, error) {
			if taken.Add(1) == 2 {
				return nil, failure
			}
			time.Sleep(time.Second)
			return &result.Set{}, nil
		}
		r.inPairs(func() {
			for range 1000 {
				r.turn("turn", nil)
			}
		})
		assert.LessOrEqual(t, taken.Load(), int32(3), "those that have begun, and no more")
		require.ErrorIs(t, r.err, failure)
		require.ErrorContains(t, r.err, "turn")
		turns := r.turns
		r.turn("turn", func() { t.Error("measured") })
		assert.Equal(t, turns+1, r.turns)
	})
}

func TestATurnThatFailsIsTheLast(t *testing.T) {
	r := small()
	failure := errors.New("killed")
	taken := 0
	r.Apart = func(int) (*result.Set, error) {
		if taken++; taken == 2 {
			return nil, failure
		}
		return &result.Set{}, nil
	}
	err := r.Measure(threeTurns)
	require.ErrorIs(t, err, failure)
	require.ErrorContains(t, err, "turn")
	assert.Equal(t, 2, taken)
}

// A child is told the number of its turn: every family takes the same ones whatever was measured before.
func TestTurnsDoNotDependOnWhatIsMeasured(t *testing.T) {
	for _, f := range slices.Concat(Families(), OnRequest()) {
		turns := func(scope Scope) int {
			r := small()
			r.Scope = scope
			r.Apart = func(int) (*result.Set, error) { return &result.Set{}, nil }
			require.NoError(t, r.Measure(f))
			return r.turns
		}
		n := turns(Full)
		assert.Positive(t, n, f.Name)
		assert.Equal(t, n, turns(Full), f.Name)
		assert.GreaterOrEqual(t, n, turns(Essentials), f.Name)
		assert.LessOrEqual(t, n, turns(Complete), f.Name)
	}
}

// A complete run leaves nothing out; a full one has several rounds of what targets and ratios refer to.
func TestRunsHaveTheTurnsThatAreSaidOfThem(t *testing.T) {
	const both, rounds = 2, 2
	timers, operations := len(timers.Peers()), len(purgatories.Peers())+1 // and the standard library's timers
	for name, want := range map[string]struct{ complete, full int }{
		// T1, T1w for each number of others pending. Full: once all; ours and std once more.
		"add+cancel": {rounds * 3 * timers, 3 * (timers + 3)},
		// T3 and T4. Full: other wheels once, and not in T4.
		"timer memory": {rounds * 2 * timers, timers + 4 + rounds*4},
		// P1 and P2; P3. Full: cb-lazy once, ours and std.
		"life": {4*(operations-1) + rounds*operations, 4*(operations-2) + 1 + rounds*2},
		// P5; P7 and its floor. Full: cb, chan and the floor once.
		"operation memory": {rounds*both*(operations-1) + rounds*(operations+1), both*(4+2) + rounds*2 + 1},
		// Sizes up to a thousand here. Full: who checks everybody once.
		"thresholds": {rounds * 2 * 4, 2 * (4 + 2)},
		// Full: entry, handle and std, and the heap with a million.
		"timer expiry": {rounds * both * both * timers, rounds * (3 + 4)},
		// Full: ours and std, cb once.
		"operation expiry": {rounds * both * operations, rounds*2 + 1},
		"probes":           {rounds * both * operations, rounds * 2},
		// The harness has no highest rate. Full: ours, std, cb, the harness once; ours at the highest rate, once.
		"open loop": {rounds * len(mixes) * (4*(operations+1) + operations), len(mixes) * (4*(rounds*3+1) + 1)},
	} {
		i := slices.IndexFunc(Families(), func(f Family) bool { return f.Name == name })
		require.GreaterOrEqual(t, i, 0, name)
		turns := func(scope Scope) int {
			r := &Run{Scope: scope, Million: 1000, Set: &result.Set{}, Progress: io.Discard}
			r.Apart = func(int) (*result.Set, error) { return &result.Set{}, nil }
			require.NoError(t, r.Measure(Families()[i]))
			return r.turns
		}
		assert.Equal(t, want.complete, turns(Complete), name)
		assert.Equal(t, want.full, turns(Full), name)
	}
}

func TestRoundsAskedForHoldForAll(t *testing.T) {
	assert.Equal(t, 2, (&Run{}).rounds(2))
	assert.Equal(t, 7, (&Run{Rounds: 7}).rounds(2))
	assert.Equal(t, 2, (&Run{Scope: Full}).longRounds())
	assert.Equal(t, 7, (&Run{Scope: Full, Rounds: 7}).longRounds())
	assert.Equal(t, 1, (&Run{Rounds: 2}).longRounds(), "only the essentials")
}

// What is left of a turn goes with its process; without one, the next turn must not pay for it.
func TestOnlyATurnThatSharesItsProcessTidiesUp(t *testing.T) {
	tidied := 0
	shared, alone := small(), small()
	alone.Only = 1
	shared.tidy(func() { tidied++ })
	alone.tidy(func() { t.Error("tidied") })
	assert.Equal(t, 1, tidied)
}
