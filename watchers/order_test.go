package watchers

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
)

// longestWalk returns the largest number of operations that find may have to pass on its way to
// position: the most that stand between two marks of the index before it.
func longestWalk(l *keyList[int], position int64) (longest int) {
	n := 0
	for w := l.First(); w != nil && w.Position <= position; w = l.Next(w) {
		if n++; w.Machine == nil {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}

func TestAnOrderedInsertVisitsFewWatches(t *testing.T) {
	w := newMap(0)
	s := w.shard(w.Hash(1))
	var ops []*machine.Machine
	add := func(n int, position func(i int) int64) {
		for i := range n {
			ops = append(ops, waitAt(t, w, 1, position(i)))
		}
	}
	at := func(position int64) func(int) int64 { return func(int) int64 { return position } }
	keep := func(n int) {
		for ; len(ops) > n; ops = ops[1:] {
			end(w, 1, ops[0])
		}
	}
	add(5000, func(i int) int64 { return int64(1000 + i) })
	l := s.mu.keys.find(1, w.Hash(1))
	add(1, at(5999-nearEnd/2))
	assert.Empty(t, l.ordered.index, "operations that arrive nearly in order need no index")

	add(1, at(5000))
	assert.LessOrEqual(t, longestWalk(l, 5000), segment+1, "the first that is far from the end makes it")
	assert.Len(t, l.ordered.index, 4001/segment)
	before := slices.Clone(l.ordered.index)
	add(10, func(i int) int64 { return int64(1100 + 400*i) })
	assert.True(t, slices.Equal(before, l.ordered.index), "the next ones use it as it is")

	visit(w, 1, everyPosition, groupSize)
	assert.True(t, slices.Equal(before, l.ordered.index), "a check drops no mark behind an operation")

	add(2000, at(1500))
	assert.LessOrEqual(t, longestWalk(l, 5000), segment+1, "a segment that grows is split")
	assert.LessOrEqual(t, len(l.ordered.index), len(before)+2000/segment+1)
	before = slices.Clone(l.ordered.index)
	add(2000, func(i int) int64 { return int64(7000 + i) })
	assert.True(t, slices.Equal(before, l.ordered.index))
	add(1, at(8900))
	assert.LessOrEqual(t, longestWalk(l, 8900), segment+1, "the index grows with the list")
	assert.True(t, slices.Equal(before, l.ordered.index[:len(before)]))
	assert.LessOrEqual(t, len(l.ordered.index), len(before)+3000/segment+1)
	checkInvariants(t, w)

	keep(50)
	add(1, at(1))
	assert.LessOrEqual(t, len(l.ordered.index), 1, "and shrinks with it, when something is put in its middle")
	add(5000, func(i int) int64 { return int64(9000 + i) })
	add(1, at(13_900))
	assert.LessOrEqual(t, longestWalk(l, 13_900), segment+1)
	keep(10)
	add(100, func(i int) int64 { return int64(20_000 + i) })
	visit(w, 1, 0, 8)
	assert.LessOrEqual(t, len(l.ordered.index), 8+2*110/segment, "or when there is a check")
	checkInvariants(t, w)
	keep(0)
	checkInvariants(t, w) // the key has left the map, and its list serves another key
	add(100, func(i int) int64 { return int64(100 - i) })
	require.Same(t, l, s.mu.keys.find(1, w.Hash(1)))
	checkInvariants(t, w)
}

// A log that passes positions, one after the other, leaves no marks that each check would have to
// pass.
func TestAPassedPositionLeavesNoMark(t *testing.T) {
	w := newMap(0)
	s := w.shard(w.Hash(1))
	const n = 100 * segment
	var ops []*machine.Machine
	for i := range int64(n) {
		ops = append(ops, waitAt(t, w, 1, i))
	}
	waitAt(t, w, 1, n-2*nearEnd) // makes the index
	l := s.mu.keys.find(1, w.Hash(1))
	require.Greater(t, len(l.ordered.index), n/segment-2)
	for i := range int64(n - segment) {
		same(t, ops[i:i+1], visit(w, 1, i, 2))
		end(w, 1, ops[i])
		passed := 0
		for at := l.Next(&l.ordered.begin); at.Machine == nil; at = l.Next(at) {
			passed++
		}
		require.LessOrEqual(t, passed, 1, "position %d", i)
		if i%100 == 0 {
			checkInvariants(t, w)
		}
	}
	require.LessOrEqual(t, len(l.ordered.index), 2)
}

// A list whose index was in use is used again for the next key, and finds its positions.
func TestAListThatIsUsedAgainHasNoIndex(t *testing.T) {
	w := newMap(0)
	s := w.shard(w.Hash(1))
	for range 3 {
		var ops []*machine.Machine
		for i := range int64(6 * segment) {
			ops = append(ops, waitAt(t, w, 1, i))
		}
		ops = append(ops, waitAt(t, w, 1, 3*segment)) // makes marks in the middle
		checkInvariants(t, w)
		require.NotEmpty(t, s.mu.keys.find(1, w.Hash(1)).ordered.index)
		for _, m := range slices.Backward(ops) {
			end(w, 1, m)
		}
		require.Nil(t, s.mu.keys.find(1, w.Hash(1)))
		checkInvariants(t, w)
	}
}

// An operation without a position that comes to many with one takes its place in a few steps.
func TestAWaitForNoPositionIsInsertedWithoutASearch(t *testing.T) {
	w := newMap(0)
	s := w.shard(w.Hash(1))
	first := wait(t, w, 1)
	for i := range int64(10 * segment) {
		waitAt(t, w, 1, i)
	}
	l := s.mu.keys.find(1, w.Hash(1))
	second := wait(t, w, 1)
	assert.Empty(t, l.ordered.index, "there was no search")
	assert.Same(t, first, l.First().Machine)
	assert.Same(t, second, l.Next(l.First()).Machine)
	checkInvariants(t, w)
}

func TestTheOrderedListAgainstASortedModel(t *testing.T) {
	// The lists are long, with insertions everywhere and removals, so that the index
	// gets more marks, and is emptied.
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 1})
		s := w.shard(0)
		type linked struct {
			m        *machine.Machine
			position int64
		}
		var model []linked
		for step := range 6000 {
			if len(model) > 0 && (step > 5000 || rng.IntN(4) == 0) {
				i := rng.IntN(len(model))
				end(w, 1, model[i].m)
				model = slices.Delete(model, i, i+1)
			} else {
				position := []int64{int64(step), rng.Int64N(int64(step) + 1), 77, int64(step) - rng.Int64N(64)}[rng.IntN(4)]
				m := waitAt(t, w, 1, position)
				i, _ := slices.BinarySearchFunc(model, position, func(p linked, position int64) int {
					if p.position <= position {
						return -1
					}
					return 1
				})
				model = slices.Insert(model, i, linked{m, position})
			}
			if step%97 != 0 && step != 5999 {
				continue
			}
			checkInvariants(t, w)
			l := s.mu.keys.find(1, w.Hash(1))
			i := 0
			for watch := l.First(); watch != nil; watch = l.Next(watch) {
				if m := watch.Machine; m != nil {
					require.True(t, i < len(model) && model[i].m == m, "place %d", i)
					i++
				}
			}
			require.Len(t, model, i)
		}
		require.NotEmpty(t, s.mu.keys.find(1, w.Hash(1)).ordered.index, "the index was in use")
	}
}
