package operation

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type plain struct{ DelayedOperation }

func (*plain) TryComplete() bool { return false }
func (*plain) OnComplete()       {}
func (*plain) OnExpiration()     {}

func TestAnUnlinkedWatchRefersToNobody(t *testing.T) {
	var l List
	l.Init(nil)
	var machines [3]*Machine
	for i := range machines {
		op := &plain{}
		machines[i] = Of(op)
		require.True(t, machines[i].Begin(op, 1))
		l.Link(machines[i], 0, int64(i), l.Last())
	}
	w := machines[1].First()
	w.Unlink()
	assert.Nil(t, w.next)
	assert.Nil(t, w.prev)
	assert.Nil(t, w.list)
	assert.Equal(t, 2, l.Len())
	assert.Same(t, machines[2].First(), l.Next(l.First()))
	assert.Same(t, machines[0].First(), l.Prev(l.Last()))
}

// TestGapLeavesTheListAsSingleUnlinksWould takes some of the watches of two lists out, in any order.
func TestGapLeavesTheListAsSingleUnlinksWould(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		var lists [2]List
		var watches []*Watch
		for i := range lists {
			lists[i].Init(nil)
			for range 1 + random.IntN(12) {
				op := &plain{}
				require.True(t, Of(op).Begin(op, 1))
				lists[i].Link(Of(op), 0, 0, lists[i].Last())
				watches = append(watches, Of(op).First())
			}
		}
		if random.IntN(2) == 0 {
			random.Shuffle(len(watches), func(i, j int) { watches[i], watches[j] = watches[j], watches[i] })
		}
		var gap Gap
		for i, w := range watches {
			if random.IntN(4) > 0 {
				gap.Unlink(w)
				require.True(t, w.next == nil && w.prev == nil && w.list == nil, "it refers to nobody")
				watches[i] = nil
			}
		}
		gap.Close()
		gap.Close() // there is none any more
		left := slices.DeleteFunc(watches, func(w *Watch) bool { return w == nil })
		for i := range lists {
			l := &lists[i]
			var forth, back []*Watch
			for w := l.First(); w != nil; w = l.Next(w) {
				forth = append(forth, w)
				require.Contains(t, left, w)
			}
			for w := l.Last(); w != nil; w = l.Prev(w) {
				back = append(back, w)
			}
			slices.Reverse(back)
			require.Equal(t, len(forth), l.Len(), "seed %d", seed)
			require.True(t, slices.Equal(forth, back), "seed %d", seed)
		}
		require.Equal(t, len(left), lists[0].Len()+lists[1].Len())
	}
}

func TestAGapThatIsClosedIsThereNoMore(t *testing.T) {
	var l List
	l.Init(nil)
	link := func(after *Watch) *Watch {
		op := &plain{}
		require.True(t, Of(op).Begin(op, 1))
		l.Link(Of(op), 0, 0, after)
		return Of(op).First()
	}
	first := link(nil)
	leaves := link(first)
	last := link(leaves)
	var gap Gap
	gap.Unlink(leaves)
	gap.Close()
	between := link(first)
	gap.Close()
	assert.Same(t, between, l.Next(first))
	assert.Same(t, between, l.Prev(last))
}

func TestWatchesAreWalkedOverAsFarAsWanted(t *testing.T) {
	var l List
	l.Init(nil)
	op := &plain{}
	m := Of(op)
	require.True(t, m.Begin(op, 4))
	for i := range 4 {
		l.Link(m, i, 0, l.Last())
	}
	for wanted := range 5 {
		w := l.First()
		seen := 0
		for got := range m.Watches() {
			if seen == wanted {
				break
			}
			assert.Same(t, w, got)
			w = l.Next(w)
			seen++
		}
		assert.Equal(t, wanted, seen)
	}
}

func TestAnEndedOperationKeepsOnlyItsOutcome(t *testing.T) {
	var l List
	l.Init(nil)
	op := &plain{}
	m := Of(op)
	require.True(t, m.Begin(op, 3))
	for i := range 3 {
		l.Link(m, i, 0, nil)
	}
	require.Equal(t, 3, m.Keys())
	for w := range m.Watches() {
		w.Unlink()
	}
	m.Settle(Forced, nil)
	assert.Nil(t, m.tail, "the watches of the other keys")
	assert.Equal(t, Forced, op.Outcome())
	assert.NoError(t, op.Cause())
	assert.Equal(t, Over, m.Acquire())
	assert.False(t, m.Begin(op, 1), "it is used once")
}

func TestARejectedOperationKeepsNoWatches(t *testing.T) {
	var l List
	l.Init(nil)
	op := &plain{}
	m := Of(op)
	require.True(t, m.Begin(op, 3))
	l.Link(m, 0, 0, nil)
	l.Link(m, 1, 0, nil)
	require.Len(t, m.Extra(), 2)
	for w := range m.Watches() {
		if w.List() != nil {
			w.Unlink()
		}
	}
	m.Reject(true)
	assert.Nil(t, m.tail)
	assert.False(t, m.Begin(op, 1), "it is spent")
}

func TestAnOperationThatWaitsForManyKeysHasNoCause(t *testing.T) {
	var l List
	l.Init(nil)
	op := &plain{}
	m := Of(op)
	require.True(t, m.Begin(op, 2))
	l.Link(m, 0, 0, nil)
	l.Link(m, 1, 0, nil)
	assert.NoError(t, op.Cause(), "one pointer serves for the other watches and for the cause")
	assert.Equal(t, "Outcome(6)", Outcome(Outcomes).String(), "the first that there is not")
}
