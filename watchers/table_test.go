package watchers

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
)

func TestTheTableAgainstAMap(t *testing.T) {
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 1})
	s := w.shard(0)
	model := map[int]*machine.Machine{}
	rng := rand.New(rand.NewPCG(1, 4))
	for step := range 8000 {
		key := rng.IntN(400)
		if step > 6000 {
			key = rng.IntN(30) // few keys: the table shrinks
		}
		if m := model[key]; m != nil || step > 7000 {
			if m != nil {
				end(w, key, m)
				delete(model, key)
			}
		} else {
			model[key] = wait(t, w, key)
		}
		if step%200 == 0 {
			checkInvariants(t, w)
		}
		require.Equal(t, len(model), int(s.mu.keys.len))
		l := s.mu.keys.find(key, w.Hash(key))
		require.Equal(t, model[key] != nil, l != nil)
	}
	for key, m := range model {
		first := Waits[int](m)[0]
		require.Equal(t, key, first.Key)
		require.Equal(t, w.Hash(key), first.Hash)
	}
	assert.LessOrEqual(t, len(s.mu.keys.buckets), 256, "it has shrunk")
	for key := range 200 {
		if model[key] == nil {
			model[key] = wait(t, w, key)
		}
	}
	for key, m := range model {
		end(w, key, m)
	}
	checkInvariants(t, w)
	assert.EqualValues(t, maxFree, s.mu.keys.nfree, "kept for the next keys")
	assert.LessOrEqual(t, len(s.mu.keys.buckets), 2*minBuckets)
}

func TestKeysWithEqualHashesAreApart(t *testing.T) {
	w := newMap(0)
	var ops []*machine.Machine
	for key := range 3 {
		m := newOp()
		require.True(t, w.Watch(m, &Wait[int]{key, anyPosition, 42}))
		ops = append(ops, m)
	}
	for key, m := range ops {
		walk, _ := w.Ask(Wait[int]{key, everyPosition, 42}, true)
		same(t, list(m), group(walk))
	}
}
