package watchers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pass over all keys of a shard releases the shard's lock after about a chunk of keys.
func TestAPassOverAllKeysGoesInChunks(t *testing.T) {
	const keys, chunk, most = 4000, 8, 40 // most: the last bucket may hold some keys more
	w := New[int](Config[int]{Shards: 1})
	s := w.Shard(0)
	for key := range keys {
		waitAt(t, w, key, AnyPosition)
	}
	parts := map[string]func(at Place) (n int, next Place, more bool){
		"SomeKeys": func(at Place) (int, Place, bool) {
			found, next, more := s.SomeKeys(at, chunk, nil)
			return len(found), next, more
		},
		"SignalSome": func(at Place) (int, Place, bool) {
			before := s.mu.signals.made
			next, more := s.SignalSome(at, chunk)
			return int(s.mu.signals.made - before), next, more
		},
	}
	for name, part := range parts {
		t.Run(name, func(t *testing.T) {
			total := 0
			var at Place
			for more := true; more; {
				var n int
				n, at, more = part(at)
				require.LessOrEqual(t, n, most)
				total += n
			}
			assert.Equal(t, keys, total)
		})
	}
}

func TestAwaitedReportsWhetherOperationsWait(t *testing.T) {
	w := newMap(0)
	s, hash := w.Shard(w.Hash(1)), w.Hash(1)
	assert.False(t, s.Awaited(1, hash))
	first, second := waitAt(t, w, 1, AnyPosition), waitAt(t, w, 1, 5)
	assert.True(t, s.Awaited(1, hash))
	assert.False(t, s.Awaited(2, hash))
	end(w, 1, first)
	assert.True(t, s.Awaited(1, hash), "one waits for a position")
	end(w, 1, second)
	assert.False(t, s.Awaited(1, hash))
}

func TestTriedReturnsTheTriesOfTheShard(t *testing.T) {
	s := newMap(0).Shard(0)
	assert.EqualValues(t, 3, s.Tried(3, 0))
	assert.EqualValues(t, 8, s.Tried(5, 2))
	assert.EqualValues(t, 9, s.Tried(1, 1))
	var total Totals
	s.Totals(&total)
	assert.Equal(t, []int64{9, 3}, []int64{total.Checks, total.Wasted})
}
