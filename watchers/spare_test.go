package watchers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// fourKeys returns keys of different shards.
func fourKeys(w *Watchers[int]) []int {
	var keys []int
	for key := 0; len(keys) < 4; key++ {
		fresh := true
		for _, k := range keys {
			fresh = fresh && w.Shard(w.Hash(k)) != w.Shard(w.Hash(key))
		}
		if fresh {
			keys = append(keys, key)
		}
	}
	return keys
}

// lent returns the shards that have an array for an operation on this many keys.
func lent(w *Watchers[int], keys int) (shards []int) {
	for i := range w.slots {
		for {
			op := &waiter{}
			machine.Of(op).Begin(op, keys, 1)
			if w.Shard(uint64(i)).mu.spare.Lend(machine.Of(op)); machine.Of(op).Extra() == nil {
				break
			}
			shards = append(shards, i)
		}
	}
	return shards
}

// An array of watches is lent again after the operation has unlinked all of them, and not
// if one of them was left to the holder of a lock.
func TestAWatchArrayIsReusedWhenFullyUnlinked(t *testing.T) {
	for home := range 4 { // the key in whose shard the operation ends
		for busy := range 1 << 4 {
			if busy&(1<<home) != 0 {
				continue
			}
			w := newMap(10)
			keys := fourKeys(w)
			m := wait(t, w, keys...)
			var shards [4]*Shard[int]
			for i, key := range keys {
				shards[i] = w.Shard(w.Hash(key))
			}
			for i, s := range shards {
				if busy&(1<<i) != 0 {
					s.mu.Lock()
				}
			}
			end(w, keys[home], m)
			for i, s := range shards {
				if busy&(1<<i) != 0 {
					s.unlock()
				}
			}
			at := lent(w, 4)
			what := fmt.Sprintf("ended by key %d while %04b are busy", home, busy)
			if busy&^1 != 0 { // the first key's watch is not in the array
				assert.Empty(t, at, what)
			} else {
				require.Len(t, at, 1, what)
				if home != 1 {
					assert.Equal(t, []int{int(shards[1].index)}, at, "%s: where it came from", what)
				}
			}
			n, left := watched(w)
			assert.Zero(t, n+left, what)
		}
	}
}

// If all keys are in one shard, Leave needs no other shard.
func TestLeaveOfOneShardReusesWatchesAtOnce(t *testing.T) {
	w := newMap(10)
	a := 0
	b := a + 1
	for w.Shard(w.Hash(a)) != w.Shard(w.Hash(b)) {
		b++
	}
	end(w, a, wait(t, w, a, b), wait(t, w, b, a))
	assert.Len(t, lent(w, 2), 2)
	n, keys := watched(w)
	assert.Zero(t, n+keys)
}
