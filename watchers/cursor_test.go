package watchers

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// waitAt links a new operation under key at a position. It returns the operation, which
// the caller holds.
func waitAt(t *testing.T, w *Watchers[int], key int, position int64) *machine.Machine {
	t.Helper()
	op := &waiter{}
	m := machine.Of(op)
	require.True(t, (&machine.Hold{Op: op}).Begin(1, 1))
	require.True(t, w.Shard(w.Hash(key)).Watch(m, 0, &Wait[int]{key, position, w.Hash(key)}))
	return m
}

func TestAKeyEmptiedDuringAWalkIsRemoved(t *testing.T) {
	w := newMap(0)
	ops := []*machine.Machine{wait(t, w, 7), wait(t, w, 7), wait(t, w, 7)}
	var c Cursor[int]
	out := make([]*machine.Machine, 2)
	_, more := w.Shard(w.Hash(7)).Begin(&c, 7, w.Hash(7), EveryPosition, out)
	require.True(t, more)
	end(w, 7, ops...)
	n, more := c.Next(out)
	assert.Zero(t, n)
	assert.False(t, more)
	_, keys := watched(w)
	assert.Zero(t, keys)
	checkInvariants(t, w)
}

// A walk does not visit operations that are linked after it has begun: they are tried
// again by their own registration, and with them the walk might never end.
func TestAWalkSkipsOperationsLinkedLater(t *testing.T) {
	for name, position := range map[string]int64{"without a position": AnyPosition, "at the position": 9} {
		t.Run(name, func(t *testing.T) {
			w := newMap(0)
			s := w.Shard(w.Hash(1))
			for range 4 {
				waitAt(t, w, 1, position)
			}
			var c Cursor[int]
			out := make([]*machine.Machine, 2)
			n, more := s.Begin(&c, 1, w.Hash(1), position, out)
			visited := n
			for more && visited <= 4 {
				waitAt(t, w, 1, position)
				n, more = c.Next(out)
				visited += n
			}
			assert.Equal(t, 4, visited)
		})
	}
}

// A walk that is stopped early leaves no marker and no key in the map.
func TestAStoppedWalkLeavesNoMarkerAndNoKey(t *testing.T) {
	for name, positions := range map[string][]int64{
		"without positions": {AnyPosition, AnyPosition, AnyPosition, AnyPosition}, "with positions": {1, 2, 3, 4}, "both": {AnyPosition, AnyPosition, AnyPosition, 2, 3, 4},
	} {
		t.Run(name, func(t *testing.T) {
			for calls := range 3 {
				w := newMap(0)
				s := w.Shard(w.Hash(1))
				var ops []*machine.Machine
				for _, position := range positions {
					ops = append(ops, waitAt(t, w, 1, position))
				}
				var c Cursor[int]
				out := make([]*machine.Machine, 1)
				_, more := s.Begin(&c, 1, w.Hash(1), EveryPosition, out)
				for range calls {
					_, more = c.Next(out)
				}
				require.True(t, more)
				c.Stop()
				checkInvariants(t, w)
				n, more := s.Begin(&c, 1, w.Hash(1), EveryPosition, make([]*machine.Machine, 9))
				assert.Equal(t, len(positions), n, "it can begin again")
				assert.False(t, more)
				_, more = s.Begin(&c, 1, w.Hash(1), EveryPosition, out)
				require.True(t, more)
				end(w, 1, ops...)
				_, keys := watched(w)
				assert.Equal(t, 1, keys)
				c.Stop()
				_, keys = watched(w)
				assert.Zero(t, keys, "the key was kept for the walk only")
				checkInvariants(t, w)
			}
		})
	}
}

// A walk passes over the markers that other walks, and the index of positions, have put into
// the lists of its key.
func TestAWalkVisitsOperationsAndNoMarkers(t *testing.T) {
	const n = 300
	positions := map[string]func(i int64) int64{
		"without positions": func(int64) int64 { return AnyPosition },
		"with positions":    func(i int64) int64 { return n - i }, // inserted at the front, by means of the index
	}
	for name, position := range positions {
		t.Run(name, func(t *testing.T) {
			w := newMap(0)
			s, hash := w.Shard(w.Hash(1)), w.Hash(1)
			var want []*machine.Machine
			for i := range int64(n) {
				want = append(want, waitAt(t, w, 1, position(i)))
			}
			if name == "with positions" {
				slices.Reverse(want)
			}
			var first Cursor[int]
			few := make([]*machine.Machine, 2)
			_, more := s.Begin(&first, 1, hash, EveryPosition, few)
			require.True(t, more)
			for _, size := range []int{1, 7, n} {
				var c Cursor[int]
				var visited []*machine.Machine
				out := make([]*machine.Machine, size)
				k, more := s.Begin(&c, 1, hash, EveryPosition, out)
				for visited = append(visited, out[:k]...); more; visited = append(visited, out[:k]...) {
					k, more = c.Next(out)
				}
				require.True(t, slices.Equal(want, visited), "in batches of %d", size)
			}
			require.True(t, slices.Equal(want, s.Close()))
			first.Stop()
			checkInvariants(t, w)
		})
	}
}

// A key without operations stays in the table while a walk stands in its list. It does not
// count as a key that operations wait for.
func TestAKeyThatOnlyAWalkKeepsIsNotReported(t *testing.T) {
	w := newMap(0)
	s, hash := w.Shard(w.Hash(7)), w.Hash(7)
	ops := []*machine.Machine{wait(t, w, 7), wait(t, w, 7), wait(t, w, 7)}
	var c Cursor[int]
	_, more := s.Begin(&c, 7, hash, EveryPosition, make([]*machine.Machine, 2))
	require.True(t, more)
	keys, _, _ := s.SomeKeys(0, 100, nil)
	assert.Equal(t, []Key[int]{{7, hash}}, keys)
	end(w, 7, ops...)
	keys, _, _ = s.SomeKeys(0, 100, nil)
	assert.Empty(t, keys)
	s.SignalSome(0, 100)
	assert.False(t, w.Signalled())
	_, awaited := s.Signal(7, hash, EveryPosition, nil)
	assert.False(t, awaited)
	var total Totals
	s.Totals(&total)
	assert.EqualValues(t, 1, total.Signals, "that of Signal")
	c.Stop()
	checkInvariants(t, w)
}
