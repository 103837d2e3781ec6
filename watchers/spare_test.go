package watchers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
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

// lent tells which shards have an array to lend for an operation on this many keys.
func lent(w *Watchers[int], keys int) (shards []int) {
	for i := range w.shards {
		for {
			op := &waiter{}
			operation.Of(op).Begin(op, keys)
			if w.shards[i].mu.spare.Lend(operation.Of(op)); operation.Of(op).Extra() == nil {
				break
			}
			shards = append(shards, i)
		}
	}
	return shards
}

// An array of watches is lent again when all of them have left their lists, and not while one waits for the purge.
func TestWatchesAreLentWhenNoneOfThemIsLeftToThePurge(t *testing.T) {
	for home := range 4 { // which of its keys the operation ends by
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
					s.mu.Unlock()
				}
			}
			at := lent(w, 4)
			what := fmt.Sprintf("ended by key %d while %04b are busy", home, busy)
			if busy&^1 != 0 { // the first key's watch is not in the array
				assert.Empty(t, at, what)
			} else {
				require.Len(t, at, 1, what)
				if home != 1 {
					assert.Equal(t, []int{shards[1].index}, at, "%s: where it came from", what)
				}
			}
			w.Purge()
			n, left := watched(w)
			assert.Zero(t, n+left, what)
		}
	}
}

// With all keys in one shard there is no other to go through.
func TestWatchesOfOneShardAreLentAtOnce(t *testing.T) {
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
