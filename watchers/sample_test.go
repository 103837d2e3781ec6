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

// A sample contains neither markers nor operations that have ended and were left in the list.
func TestASampleHoldsOnlyWaitingOperations(t *testing.T) {
	w := newMap(10)
	a, b := twoKeys(w)
	ended := wait(t, w, a, b)
	waits := []*machine.Machine{wait(t, w, b), wait(t, w, b)}
	s := w.Shard(w.Hash(b))
	var c Cursor[int]
	_, more := s.Begin(&c, b, w.Hash(b), EveryPosition, make([]*machine.Machine, 2))
	require.True(t, more, "markers are set")
	s.mu.Lock()
	end(w, a, ended)
	s.mu.Unlock() // without taking out the watch
	require.Equal(t, 1, w.Stale())

	var got []*machine.Machine
	for _, waiting := range s.Sample(nil, 100, 0) {
		got = append(got, waiting.Machine)
		assert.Equal(t, b, waiting.Key)
	}
	assert.Equal(t, waits, got)
}
