package machine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ending returns a held operation on this many keys whose watches have been linked and
// unlinked.
func ending(t *testing.T, keys int) *Machine {
	t.Helper()
	var l List
	l.Init(nil)
	op := &plain{}
	require.True(t, Of(op).Begin(op, keys, purgatory1))
	for i := range keys {
		l.Link(Of(op), i, 7, l.Last())
	}
	for i := range Of(op).Keys() {
		Of(op).Watch(i).Unlink()
	}
	return Of(op)
}

func beginning(t *testing.T, keys int) *Machine {
	t.Helper()
	op := &plain{}
	require.True(t, Of(op).Begin(op, keys, purgatory1))
	return Of(op)
}

func TestSpareLendsEachArrayOnceAndToItsSize(t *testing.T) {
	var s Spare
	arrays := map[*Watch]int{} // by their first watch, how many keys
	for keys := 2; keys <= maxSpareLen+1; keys++ {
		for range 2 {
			m := ending(t, keys)
			arrays[&m.Extra()[0]] = keys
			s.Take(m)
			assert.Nil(t, m.Extra(), "it has it no more")
		}
	}
	for keys := 2; keys <= maxSpareLen+1; keys++ {
		for range 2 {
			m := beginning(t, keys)
			s.Lend(m)
			extra := m.Extra()
			require.Len(t, extra, keys-1)
			for i := range extra {
				assert.True(t, extra[i].machine == nil && extra[i].list == nil && extra[i].next == nil && extra[i].prev == nil,
					"watch %d of %d refers to something", i, len(extra))
			}
			assert.Equal(t, keys, arrays[&extra[0]])
			delete(arrays, &extra[0])
		}
		m := beginning(t, keys)
		s.Lend(m)
		assert.Nil(t, m.Extra(), "there were two")
	}
	assert.Empty(t, arrays)
	assert.Zero(t, s.watches)
}

func TestSpareKeepsNoOperation(t *testing.T) {
	var s Spare
	m := ending(t, 4)
	extra := m.Extra()
	s.Take(m)
	for i := range extra {
		assert.Nil(t, extra[i].machine)
	}
}

func TestSpareKeepsABoundedNumberOfWatches(t *testing.T) {
	var s Spare
	lent := func(keys int) (n int) {
		for {
			m := beginning(t, keys)
			if s.Lend(m); m.Extra() == nil {
				return n
			}
			n++
		}
	}
	for range 2 { // the second time, Lend has made room again
		for range maxSpareWatches {
			s.Take(ending(t, 3))
		}
		s.Take(ending(t, 2))
		assert.Zero(t, lent(2))
		assert.Equal(t, maxSpareWatches/2, lent(3))
	}
	for range maxSpareWatches/7 + 1 {
		s.Take(ending(t, 8))
	}
	assert.Equal(t, maxSpareWatches/7, lent(8), "what does not fit whole is not kept")
	s.Take(ending(t, maxSpareLen+2))
	m := beginning(t, maxSpareLen+2)
	s.Lend(m)
	assert.Nil(t, m.Extra(), "as long as that is rare")
}
