package watchers

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// checkInvariants requires that every list is linked correctly and lies in the right
// bucket, that every count is right, and that the map keeps no idle key.
func checkInvariants(t *testing.T, w *Watchers[int]) {
	t.Helper()
	stale := 0
	for i := range w.slots {
		s := w.Shard(uint64(i))
		watched, lists := 0, map[*keyList[int]]bool{}
		require.Equal(t, 1, bits.OnesCount(uint(len(s.mu.keys.buckets))), "buckets are a power of two")
		for b, l := range s.mu.keys.buckets {
			for ; l != nil; l = l.chain {
				require.False(t, lists[l], "a list twice in the table")
				lists[l] = true
				require.Equal(t, w.Hash(l.key), l.hash)
				require.Same(t, s, w.Shard(l.hash))
				require.Same(t, s, l.shard)
				require.Equal(t, b, int(l.hash>>32)&(len(s.mu.keys.buckets)-1))
				require.Same(t, l, s.mu.keys.find(l.key, l.hash), "one list for a key")
				require.False(t, l.idle(), "an empty key is forgotten")
				markers := 2 * int(l.readers) // here and end
				if l.ordered != nil {
					markers += 1 + len(l.ordered.index)
				}
				watched += checkRing(t, &l.List, markers)
				checkOrder(t, l)
			}
		}
		require.Len(t, lists, int(s.mu.keys.len))
		require.LessOrEqual(t, int(s.mu.keys.len), len(s.mu.keys.buckets))
		require.EqualValues(t, watched, s.mu.watched)

		free := 0
		for l := s.mu.keys.free; l != nil; l = l.chain {
			free++
			require.False(t, lists[l], "free and in the table")
			require.True(t, l.idle() && l.key == 0)
			require.True(t, l.ordered == nil || l.ordered.index == nil)
			require.False(t, l.signalled)
			require.Same(t, s, l.shard)
		}
		require.EqualValues(t, free, s.mu.keys.nfree)
		require.LessOrEqual(t, free, maxFree)

		queued := map[*keyList[int]]bool{}
		for l := s.mu.signals.first; l != nil && !queued[l]; l = l.behind {
			require.True(t, l.signalled)
			queued[l] = true
			require.True(t, lists[l], "a key that has left the map is queued")
			require.Same(t, l, l.behind.before)
			require.Same(t, l, l.before.behind)
		}
		for l := range lists {
			require.Equal(t, queued[l], l.signalled)
		}
		require.Equal(t, len(queued) > 0, w.signalled[i/64].Load()&(1<<(i%64)) != 0, "the bitmap of signalled shards")

		for _, watch := range s.stale.watches {
			require.NotNil(t, watch.List())
			require.Same(t, s, watch.List().Host().(*keyList[int]).shard)
			require.NotEqual(t, machine.Pending, watch.Machine().Outcome(), "only what has ended is stale")
		}
		require.Equal(t, len(s.stale.watches) > 0, s.hasStale.Load() != 0, "unlock finds every watch that was left")
		stale += len(s.stale.watches)
	}
	require.Equal(t, stale, w.Stale())
	require.LessOrEqual(t, stale, w.config.StaleLimit)
}

// checkRing walks a list both ways and returns its length.
func checkRing(t *testing.T, l *machine.List, markers int) (n int) {
	t.Helper()
	var forth, back []*machine.Watch
	for w := l.First(); w != nil; w = l.Next(w) {
		forth = append(forth, w)
		if w.List() != l {
			require.Fail(t, "a watch that does not know its list")
		}
		if w.Machine() != nil {
			n++
		}
	}
	for w := l.Last(); w != nil; w = l.Prev(w) {
		back = append(back, w)
	}
	slices.Reverse(back)
	require.True(t, slices.Equal(forth, back), "forth and back are the same way")
	require.Equal(t, n, l.Len())
	require.LessOrEqual(t, len(forth)-n, markers, "no marker is left behind")
	return n
}

// checkOrder requires that the list is sorted, and that the markers of its index stand in it.
func checkOrder(t *testing.T, l *keyList[int]) {
	t.Helper()
	var markers []*machine.Marker
	if l.ordered != nil {
		markers = append(markers, &l.ordered.begin)
		markers = append(markers, l.ordered.index...)
	}
	last := int64(AnyPosition)
	for w := l.First(); w != nil; w = l.Next(w) {
		if w.Position() < last {
			require.Fail(t, "not in order of position")
		}
		last = w.Position()
		if len(markers) > 0 && w == markers[0].Element() {
			markers = markers[1:]
		}
		if l.ordered != nil && w.Machine() != nil && (w.Position() == AnyPosition) != (len(markers) == 1+len(l.ordered.index)) {
			require.Fail(t, "begin stands between those without and those with a position")
		}
	}
	require.Empty(t, markers, "every marker of the index stands in the list, in the order of the index")
}
