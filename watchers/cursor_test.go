package watchers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

// waitAt watches a new operation under key for a position, and returns it held.
func waitAt(t *testing.T, w *Watchers[int], key int, position int64) *operation.Machine {
	t.Helper()
	op := &waiter{}
	m := operation.Of(op)
	require.True(t, m.Begin(op, 1))
	require.True(t, w.Shard(w.Hash(key)).Watch(m, 0, key, w.Hash(key), position))
	return m
}

func TestAKeyThatEmptiesUnderAWalkIsForgottenAtItsEnd(t *testing.T) {
	w := newMap(0)
	ops := []*operation.Machine{wait(t, w, 7), wait(t, w, 7), wait(t, w, 7)}
	var c Cursor[int]
	out := make([]*operation.Machine, 2)
	_, more := w.Shard(w.Hash(7)).Begin(&c, 7, w.Hash(7), Everything, out)
	require.True(t, more)
	end(w, 7, ops...)
	n, more := c.Next(out)
	assert.Zero(t, n)
	assert.False(t, more)
	_, keys := watched(w)
	assert.Zero(t, keys)
	checkInvariants(t, w)
}

// Who comes later makes its own second look; a walk that took them along might never
// end.
func TestAWalkLeavesThoseOutWhoComeLater(t *testing.T) {
	for name, position := range map[string]int64{"without a position": Any, "at the position": 9} {
		t.Run(name, func(t *testing.T) {
			w := newMap(0)
			s := w.Shard(w.Hash(1))
			for range 4 {
				waitAt(t, w, 1, position)
			}
			var c Cursor[int]
			out := make([]*operation.Machine, 2)
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
