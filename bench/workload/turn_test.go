package workload

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/bench/result"
)

// threeTurns adds a sample in each of three turns.
var threeTurns = Family{Name: "three", run: func(r *Run) {
	for round := range 3 {
		r.turn("turn", func() {
			r.add("W", "", "peer", round, 1, map[string]float64{result.NsOp: float64(round)})
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
	for _, f := range Families() {
		turns := func(quick bool) int {
			r := small()
			r.Quick = quick
			r.Apart = func(int) (*result.Set, error) { return &result.Set{}, nil }
			require.NoError(t, r.Measure(f))
			return r.turns
		}
		n := turns(false)
		assert.Positive(t, n, f.Name)
		assert.Equal(t, n, turns(false), f.Name)
		assert.GreaterOrEqual(t, n, turns(true), f.Name)
	}
}

// A run leaves nothing out: every peer has each parameter in every round.
func TestRunsHaveTheTurnsThatAreSaidOfThem(t *testing.T) {
	const both, rounds = 2, 2
	const timers, operations = 4, 4
	for name, want := range map[string]int{
		"add+cancel":   rounds * 3 * timers,
		"timer memory": rounds * timers,
		// P1 and P2, where the standard library's take turns with ours; the same beside a live heap; P3.
		"life": 4*(operations-1) + rounds*(operations-1) + rounds*(operations-1),
		// P5; P7.
		"operation memory": rounds*both*operations + rounds*operations,
		// Sizes up to a thousand here; ours in order and not, and no goroutines.
		"thresholds":       rounds * both * operations,
		"timer expiry":     rounds * both * timers,
		"operation expiry": rounds * operations,
		"probes":           rounds * operations,
		"open loop":        rounds * 5 * operations,
	} {
		i := slices.IndexFunc(Families(), func(f Family) bool { return f.Name == name })
		require.GreaterOrEqual(t, i, 0, name)
		r := &Run{Million: 1000, Set: &result.Set{}, Progress: io.Discard}
		r.Apart = func(int) (*result.Set, error) { return &result.Set{}, nil }
		require.NoError(t, r.Measure(Families()[i]))
		assert.Equal(t, want, r.turns, name)
	}
}

func TestRoundsAskedForHoldForAll(t *testing.T) {
	assert.Equal(t, 2, (&Run{}).longRounds())
	assert.Equal(t, 7, (&Run{Rounds: 7}).longRounds())
	assert.Equal(t, 1, (&Run{Quick: true, Rounds: 2}).longRounds(), "only the essentials")
}
