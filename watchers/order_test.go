package watchers

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

// longestWalk returns how many operations may have to be passed to find a place: the
// most that stand between two fences.
func longestWalk(l *keyList[int]) (longest int) {
	n := 0
	for w := l.ordered.First(); w != nil; w = l.ordered.Next(w) {
		if n++; w.Machine() == nil {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}

func TestAPlaceIsFoundByAShortWalk(t *testing.T) {
	w := newMap(0)
	s := w.Shard(w.Hash(1))
	var ops []*operation.Machine
	add := func(n int, position func(i int) int64) {
		for i := range n {
			ops = append(ops, waitAt(t, w, 1, position(i)))
		}
	}
	keep := func(n int) {
		for ; len(ops) > n; ops = ops[1:] {
			end(w, 1, ops[0])
			require.Nil(t, s.Exit())
		}
	}
	add(5000, func(i int) int64 { return int64(1000 + i) })
	l := s.mu.keys.find(1, w.Hash(1))
	add(1, func(int) int64 { return 5999 - nearEnd/2 })
	assert.Empty(t, l.ordered.index.fences, "what comes nearly in order needs no index")

	add(1, func(int) int64 { return 1100 })
	assert.LessOrEqual(t, longestWalk(l), segment+1, "the first that is far from the end has it made")
	assert.Greater(t, len(l.ordered.index.fences), 5000/segment/2)
	assert.LessOrEqual(t, len(l.ordered.index.fences), 5000/segment+1)
	before := slices.Clone(l.ordered.index.fences)
	add(10, func(i int) int64 { return int64(1100 + 400*i) })
	assert.True(t, slices.Equal(before, l.ordered.index.fences), "the next ones use it as it is")

	add(2000, func(int) int64 { return 1500 })
	assert.LessOrEqual(t, longestWalk(l), 2*segment+2, "a segment that grows is split")
	assert.LessOrEqual(t, len(l.ordered.index.fences), len(before)+2000/segment+1)
	before = slices.Clone(l.ordered.index.fences)
	add(2000, func(i int) int64 { return int64(7000 + i) })
	assert.LessOrEqual(t, longestWalk(l), 2*segment+2, "the index grows with the list")
	assert.True(t, slices.Equal(before, l.ordered.index.fences[:len(before)]))
	assert.LessOrEqual(t, len(l.ordered.index.fences), len(before)+2000/segment+1)
	checkInvariants(t, w)

	keep(50)
	add(1, func(int) int64 { return 1 })
	assert.LessOrEqual(t, len(l.ordered.index.fences), 1, "and shrinks with it, when something is put in its middle")
	add(5000, func(i int) int64 { return int64(9000 + i) })
	assert.LessOrEqual(t, longestWalk(l), 2*segment+2)
	keep(10)
	add(100, func(i int) int64 { return int64(20_000 + i) })
	assert.LessOrEqual(t, len(l.ordered.index.fences), 8+2*110/segment, "or at its end")
	checkInvariants(t, w)
	keep(0)
	checkInvariants(t, w) // the key is forgotten, and its list serves another
	add(100, func(i int) int64 { return int64(100 - i) })
	require.Same(t, l, s.mu.keys.find(1, w.Hash(1)))
	checkInvariants(t, w)
}
