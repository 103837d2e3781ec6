package machine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type plain struct{ Core }

func (*plain) TryComplete() bool { return false }
func (*plain) OnComplete()       {}
func (*plain) OnExpiration()     {}

func TestAnUnlinkedWatchRefersToNothing(t *testing.T) {
	var l List
	l.Init(nil)
	var machines [3]*Machine
	for i := range machines {
		op := &plain{}
		machines[i] = Of(op)
		require.True(t, Of(op).Begin(op, 1, purgatory1))
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

// TestUnlinkKeepsTheOtherWatches takes some of the watches of two lists out, in any order.
func TestUnlinkKeepsTheOtherWatches(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		var lists [2]List
		var want [2][]*Watch
		var all []*Watch
		for i := range lists {
			lists[i].Init(nil)
			for range 1 + random.IntN(12) {
				op := &plain{}
				require.True(t, Of(op).Begin(op, 1, purgatory1))
				lists[i].Link(Of(op), 0, 0, lists[i].Last())
				want[i] = append(want[i], Of(op).First())
			}
			all = append(all, want[i]...)
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, w := range all[:random.IntN(len(all)+1)] {
			w.Unlink()
			require.True(t, w.next == nil && w.prev == nil && w.list == nil, "it refers to nobody")
			for i := range want {
				want[i] = slices.DeleteFunc(want[i], func(other *Watch) bool { return w == other })
			}
		}
		for i := range lists {
			l := &lists[i]
			var forth, back []*Watch
			for w := l.First(); w != nil; w = l.Next(w) {
				forth = append(forth, w)
			}
			for w := l.Last(); w != nil; w = l.Prev(w) {
				back = append(back, w)
			}
			slices.Reverse(back)
			require.True(t, slices.Equal(want[i], forth), "seed %d", seed)
			require.True(t, slices.Equal(want[i], back), "seed %d", seed)
			require.Equal(t, len(want[i]), l.Len(), "seed %d", seed)
		}
	}
}

func TestAMarkerIsNoOperation(t *testing.T) {
	var l List
	l.Init(nil)
	var marker Marker
	l.Mark(&marker, 5, nil)
	assert.Zero(t, l.Len())
	assert.Same(t, &marker, l.First().Marker())
	assert.Nil(t, l.First().Machine())
	assert.EqualValues(t, 5, l.First().Position())
	marker.Unlink()
	assert.Zero(t, l.Len())
	assert.Nil(t, l.First())
	assert.Nil(t, marker.List())
}

func TestAnIterationOverWatchesMayStopEarly(t *testing.T) {
	var l List
	l.Init(nil)
	op := &plain{}
	m := Of(op)
	require.True(t, Of(op).Begin(op, 4, purgatory1))
	for i := range 4 {
		l.Link(m, i, 0, l.Last())
	}
	w := l.First()
	for i := range m.Keys() {
		assert.Same(t, w, m.Watch(i))
		w = l.Next(w)
	}
	assert.Nil(t, w)
}

func TestAnEndedOperationKeepsOnlyItsOutcome(t *testing.T) {
	var l List
	l.Init(nil)
	op := &plain{}
	m := Of(op)
	require.True(t, Of(op).Begin(op, 3, purgatory1))
	for i := range 3 {
		l.Link(m, i, 0, nil)
	}
	require.Equal(t, 3, m.Keys())
	for i := range m.Keys() {
		m.Watch(i).Unlink()
	}
	m.settle(Forced, nil)
	assert.Zero(t, m.tail, "the watches of the other keys")
	assert.Equal(t, Forced, m.Outcome())
	assert.NoError(t, m.Cause())
	assert.False(t, m.Acquire())
	assert.False(t, Of(op).Begin(op, 1, purgatory1), "it is used once")
}

func TestARejectedOperationMayBeginAgainUnlessSpent(t *testing.T) {
	for _, spent := range []bool{false, true} {
		op := &plain{}
		m := Of(op)
		require.True(t, Of(op).Begin(op, 3, purgatory1))
		m.SetStart(0)
		m.giveBack(spent)
		assert.Equal(t, Pending, m.Outcome(), "it was not accepted")
		assert.Negative(t, m.Start(), "and so has not been watched")
		assert.False(t, m.Acquire())
		assert.Equal(t, !spent, Of(op).Begin(op, 1, purgatory1))
	}
}

func TestAPendingOperationOnManyKeysHasNoCause(t *testing.T) {
	var l List
	l.Init(nil)
	op := &plain{}
	m := Of(op)
	require.True(t, Of(op).Begin(op, 2, purgatory1))
	l.Link(m, 0, 0, nil)
	l.Link(m, 1, 0, nil)
	assert.NoError(t, m.Cause(), "one pointer serves for the other watches and for the cause")
}
