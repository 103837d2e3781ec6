package watchers

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// longestWalk returns the largest number of operations that find may have to pass: the
// most that stand between two markers of the index.
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

func TestAnOrderedInsertVisitsFewWatches(t *testing.T) {
	w := newMap(0)
	s := w.Shard(w.Hash(1))
	var ops []*machine.Machine
	add := func(n int, position func(i int) int64) {
		for i := range n {
			ops = append(ops, waitAt(t, w, 1, position(i)))
		}
	}
	keep := func(n int) {
		for ; len(ops) > n; ops = ops[1:] {
			end(w, 1, ops[0])
		}
	}
	add(5000, func(i int) int64 { return int64(1000 + i) })
	l := s.mu.keys.find(1, w.Hash(1))
	add(1, func(int) int64 { return 5999 - nearEnd/2 })
	assert.Empty(t, l.ordered.index.markers, "operations that arrive nearly in order need no index")

	add(1, func(int) int64 { return 1100 })
	assert.LessOrEqual(t, longestWalk(l), segment+1, "the first that is far from the end has it made")
	assert.Greater(t, len(l.ordered.index.markers), 5000/segment/2)
	assert.LessOrEqual(t, len(l.ordered.index.markers), 5000/segment+1)
	before := slices.Clone(l.ordered.index.markers)
	add(10, func(i int) int64 { return int64(1100 + 400*i) })
	assert.True(t, slices.Equal(before, l.ordered.index.markers), "the next ones use it as it is")

	add(2000, func(int) int64 { return 1500 })
	assert.LessOrEqual(t, longestWalk(l), 2*segment+2, "a segment that grows is split")
	assert.LessOrEqual(t, len(l.ordered.index.markers), len(before)+2000/segment+1)
	before = slices.Clone(l.ordered.index.markers)
	add(2000, func(i int) int64 { return int64(7000 + i) })
	assert.LessOrEqual(t, longestWalk(l), 2*segment+2, "the index grows with the list")
	assert.True(t, slices.Equal(before, l.ordered.index.markers[:len(before)]))
	assert.LessOrEqual(t, len(l.ordered.index.markers), len(before)+2000/segment+1)
	checkInvariants(t, w)

	keep(50)
	add(1, func(int) int64 { return 1 })
	assert.LessOrEqual(t, len(l.ordered.index.markers), 1, "and shrinks with it, when something is put in its middle")
	add(5000, func(i int) int64 { return int64(9000 + i) })
	assert.LessOrEqual(t, longestWalk(l), 2*segment+2)
	keep(10)
	add(100, func(i int) int64 { return int64(20_000 + i) })
	assert.LessOrEqual(t, len(l.ordered.index.markers), 8+2*110/segment, "or at its end")
	checkInvariants(t, w)
	keep(0)
	checkInvariants(t, w) // the key has left the map, and its list serves another key
	add(100, func(i int) int64 { return int64(100 - i) })
	require.Same(t, l, s.mu.keys.find(1, w.Hash(1)))
	checkInvariants(t, w)
}

func TestTheOrderedListAgainstASortedModel(t *testing.T) {
	// The lists are long, with insertions everywhere and removals, so that the index is
	// built, gets more markers, and is built again.
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := New(Config[int]{Shards: 1})
		s := w.Shard(0)
		type place struct {
			m        *machine.Machine
			position int64
		}
		var model []place
		for step := range 6000 {
			if len(model) > 0 && (step > 5000 || rng.IntN(4) == 0) {
				i := rng.IntN(len(model))
				s.Leave([]*machine.Machine{model[i].m}, []machine.Outcome{machine.Forced}, make([]int, 1))
				model = slices.Delete(model, i, i+1)
			} else {
				position := []int64{int64(step), rng.Int64N(int64(step) + 1), 77, int64(step) - rng.Int64N(64)}[rng.IntN(4)]
				op := &waiter{}
				m := machine.Of(op)
				require.True(t, (&machine.Hold{Op: op}).Begin(1, 1))
				require.True(t, s.Watch(m, 0, &Wait[int]{1, position, w.Hash(1)}))
				i, _ := slices.BinarySearchFunc(model, position, func(p place, position int64) int {
					if p.position <= position {
						return -1
					}
					return 1
				})
				model = slices.Insert(model, i, place{m, position})
			}
			if step%97 != 0 && step != 5999 {
				continue
			}
			checkInvariants(t, w)
			l := s.mu.keys.find(1, w.Hash(1))
			i := 0
			for watch := l.ordered.First(); watch != nil; watch = l.ordered.Next(watch) {
				if m := watch.Machine(); m != nil {
					require.True(t, i < len(model) && model[i].m == m, "place %d", i)
					i++
				}
			}
			require.Len(t, model, i)
		}
		require.NotEmpty(t, s.mu.keys.find(1, w.Hash(1)).ordered.index.markers, "the index was in use")
	}
}
