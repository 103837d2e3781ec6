package watchers

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// checkInvariants requires that every list is linked correctly and lies in the right
// bucket, that every count is right, and that the map keeps no key for which nobody waits.
func checkInvariants(t testing.TB, w *Watchers[int]) {
	t.Helper()
	stale, queued := 0, map[*keyList[int]]bool{}
	for l := w.queue.first; l != nil && !queued[l]; l = l.behind {
		queued[l] = true
		require.Same(t, l, l.behind.ahead)
		require.Same(t, l, l.ahead.behind)
	}
	for s := range w.shards() {
		watched, lists := 0, map[*keyList[int]]bool{}
		require.Equal(t, 1, bits.OnesCount(uint(len(s.mu.keys.buckets))), "buckets are a power of two")
		for b, l := range s.mu.keys.buckets {
			for ; l != nil; l = l.chain {
				require.False(t, lists[l], "a list twice in the table")
				lists[l] = true
				require.Equal(t, w.Hash(l.key), l.hash)
				require.Same(t, s, w.shard(l.hash))
				require.Same(t, s, l.shard)
				require.Equal(t, b, int(l.hash>>32)&(len(s.mu.keys.buckets)-1))
				require.Same(t, l, s.mu.keys.find(l.key, l.hash), "one list for a key")
				require.Positive(t, l.Len(), "an empty key is forgotten")
				require.Equal(t, queued[l], l.queued)
				delete(queued, l)
				watched += checkList(t, l)
			}
		}
		require.Len(t, lists, int(s.mu.keys.len))
		require.LessOrEqual(t, int(s.mu.keys.len), len(s.mu.keys.buckets))
		require.Equal(t, watched, s.mu.watched)
		for v := &s.mu.visit; v != nil; v = v.next {
			require.Same(t, s, v.shard)
		}

		free := 0
		for l := s.mu.keys.free; l != nil; l = l.chain {
			free++
			require.False(t, lists[l], "free and in the table")
			require.True(t, l.Len() == 0 && l.key == 0 && !l.walking && !l.queued && l.asked == asked{}, "a free list has nothing of its key")
			require.True(t, l.ordered == nil || len(l.ordered.index) == 0)
			require.Same(t, s, l.shard)
		}
		require.EqualValues(t, free, s.mu.keys.nfree)
		require.LessOrEqual(t, free, maxFree)

		for at := s.stale.Load(); at != nil; at = at.next {
			stale++
			require.Same(t, s, listOf[int](at.watch).shard)
			require.NotEqual(t, machine.Pending, at.watch.Machine.Outcome(), "only what has ended is stale")
		}
	}
	require.Empty(t, queued, "a key that has left the map is queued")
	require.Equal(t, stale, int(w.stale.Load()))
	require.LessOrEqual(t, stale, w.config.StaleLimit)
}

// checkList goes over a list both ways, and requires that it is sorted, and that the marks of its index, and no others, stand in it. It
// returns the number of operations.
func checkList(t testing.TB, l *keyList[int]) (n int) {
	t.Helper()
	var index, forth, back []*machine.Watch
	if l.ordered != nil {
		index = append(append(index, &l.ordered.begin), l.ordered.index...)
	}
	last := int64(anyPosition)
	for w := l.First(); w != nil; w = l.Next(w) {
		forth = append(forth, w)
		if w.List != &l.List || w.Position < last {
			require.Fail(t, "a watch in another list, or not in order of position")
		}
		last = w.Position
		switch {
		case w.Machine != nil:
			n++
			if l.ordered != nil && (w.Position == anyPosition) != (len(index) == 1+len(l.ordered.index)) {
				require.Fail(t, "begin stands between those without and those with a position")
			}
		case len(index) > 0 && w == index[0]:
			index = index[1:]
		default:
			require.Fail(t, "a mark of nobody")
		}
	}
	if l.First() != nil {
		for w := l.Last(); len(back) < len(forth); w = w.Prev {
			back = append(back, w)
		}
	}
	slices.Reverse(back)
	require.True(t, slices.Equal(forth, back), "forth and back are the same way")
	require.Equal(t, n, l.Len())
	require.Empty(t, index, "every mark of the index stands in the list, in the order of the index")
	return n
}
