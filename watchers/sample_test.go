package watchers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

func sampled(out []Sampled[int]) (perKey map[int]int) {
	perKey = map[int]int{}
	for _, w := range out {
		perKey[w.Key]++
	}
	return perKey
}

// A key with many operations must not hide the others in a sample.
func TestASampleTakesEquallyFromEachKey(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 1})
	for key := range 2 {
		for range 20 {
			wait(t, w, key)
			waitAt(t, w, key, 5)
		}
	}
	for from := range uint(8) {
		assert.Equal(t, map[int]int{0: 4, 1: 4}, sampled(w.Shard(0).Sample(nil, 8, from)))
	}
	assert.Len(t, w.Shard(0).Sample(nil, 1, 0), 1)
}

// A sample has neither marks nor operations that have ended and are stale.
func TestASampleHasOnlyWaitingOperations(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	ended := wait(t, w, a, b)
	waits := list(wait(t, w, b), waitAt(t, w, b, 5))
	s := w.Shard(w.Hash(b))
	_, more := s.Claim(new(Claims[int]), b, w.Hash(b), func(*machine.Machine) bool { return false }, make([]*machine.Machine, 2))
	require.True(t, more, "a mark is set")
	s.lock()
	end(w, a, ended)
	s.unlock()
	require.Equal(t, 1, w.Stale())
	same(t, waits, sampledOf(s, b))
}
