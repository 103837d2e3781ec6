package watchers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// A pass over all keys of a shard releases the shard's lock after about a chunk of keys.
func TestAPassOverAllKeysGoesInChunks(t *testing.T) {
	const keys, chunk, most = 4000, 8, 40 // most: the last bucket may hold some keys more
	w := New[int](Config[int]{Shards: 1})
	s := w.Shards()[0]
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
		"Gather": func(at Place) (int, Place, bool) {
			n, rest, apart, next, more := s.Gather(at, make([]*machine.Machine, chunk), nil)
			return n + len(rest) + len(apart), next, more
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
