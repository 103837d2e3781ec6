package watchers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

func TestSignalsOfAKeyCoalesceUntilItIsTaken(t *testing.T) {
	w := newMap(0)
	wait(t, w, 1)
	h := w.Hash(1)
	s := w.Shard(h)

	assert.True(t, queued(s, 1, h, EveryPosition, nil), "somebody has to take it")
	assert.False(t, queued(s, 1, h, EveryPosition, nil), "marked already")
	assert.True(t, w.Signalled())
	taken, ok := w.TakeSignal(0)
	assert.True(t, ok)
	assert.Equal(t, Signalled[int]{Key: 1, Hash: h, UpTo: EveryPosition}, taken)
	assert.False(t, w.Signalled())

	// The check of the key that was taken may still be running, so this signal counts anew.
	assert.True(t, queued(s, 1, h, EveryPosition, nil))
	_, ok = w.TakeSignal(0)
	assert.True(t, ok)
	assert.EqualValues(t, 3, s.mu.signals.made)
	assert.EqualValues(t, 1, s.mu.signals.coalesced)
}

func TestCoalescedSignalsReachTheHighestPosition(t *testing.T) {
	for _, positions := range [][]int64{{0, 1, 0}, {1, 0, 0}, {0, 0, 1}} {
		w := newMap(0)
		h := w.Hash(1)
		wait(t, w, 1)
		for _, upTo := range positions {
			w.Shard(h).Signal(1, h, upTo, nil)
		}
		taken, ok := w.TakeSignal(0)
		assert.True(t, ok)
		assert.EqualValues(t, 1, taken.UpTo)
		w.Shard(h).Signal(1, h, 0, nil)
		taken, _ = w.TakeSignal(0)
		assert.Zero(t, taken.UpTo, "what was taken is over")
	}
}

func TestSignalledKeysOfAShardAreTakenInTheirOrder(t *testing.T) {
	w := New(Config[int]{Shards: 1})
	for key := range 5 {
		wait(t, w, key)
	}
	order := []int{3, 0, 4, 1, 2}
	for _, key := range append(order, 0, 3) {
		w.shards[0].Signal(key, w.Hash(key), EveryPosition, nil)
	}
	checkInvariants(t, w)
	for _, key := range order {
		taken, ok := w.TakeSignal(7)
		assert.True(t, ok)
		assert.Equal(t, key, taken.Key)
		checkInvariants(t, w)
	}
	_, ok := w.TakeSignal(7)
	assert.False(t, ok)
}

// TakeSignal finds every signalled shard for every turn, in the first word of the bitmap
// and in later ones.
func TestTakeSignalFindsEveryShardForEveryTurn(t *testing.T) {
	for _, shards := range []int{1, 8, 64, 256} {
		w := New(Config[int]{Shards: shards})
		for turn := range uint(300) {
			want := map[int]bool{}
			for key := range 5 {
				if turn == 0 {
					wait(t, w, key)
				}
				require.True(t, queued(w.Shard(w.Hash(key)), key, w.Hash(key), EveryPosition, nil))
				want[key] = true
			}
			for len(want) > 0 {
				taken, ok := w.TakeSignal(turn)
				require.True(t, ok)
				require.True(t, want[taken.Key])
				delete(want, taken.Key)
			}
			require.False(t, w.Signalled())
		}
	}
}

func TestASignalOfAKeyWithoutWaitersIsDropped(t *testing.T) {
	w := newMap(0)
	h := w.Hash(1)
	s := w.Shard(h)
	assert.False(t, queued(s, 1, h, EveryPosition, nil))
	m := wait(t, w, 1)
	assert.True(t, queued(s, 1, h, EveryPosition, nil))
	end(w, 1, m) // the key leaves the map while it is marked
	wait(t, w, 1)
	assert.True(t, queued(s, 1, h, EveryPosition, nil), "the key is another one")
	_, ok := w.TakeSignal(0)
	assert.False(t, ok, "of the forgotten one")
	checkInvariants(t, w)
	taken, ok := w.TakeSignal(0)
	assert.True(t, ok)
	assert.Equal(t, 1, taken.Key)
	_, ok = w.TakeSignal(0)
	assert.False(t, ok)
	_, ok = s.takeSignal()
	assert.False(t, ok, "another worker was faster")
}

func TestASignalledKeyOutlivesAWalkOverIt(t *testing.T) {
	w := newMap(0)
	h := w.Hash(1)
	s := w.Shard(h)
	ops := []*machine.Machine{wait(t, w, 1), wait(t, w, 1), wait(t, w, 1)}
	var walk Cursor[int]
	out := make([]*machine.Machine, 2)
	_, more := s.Begin(&walk, 1, h, EveryPosition, out)
	require.True(t, more)
	require.True(t, queued(s, 1, h, EveryPosition, nil))
	end(w, 1, ops...)
	taken, ok := w.TakeSignal(0)
	assert.True(t, ok, "it is there still, for the walk")
	assert.Equal(t, 1, taken.Key)
	checkInvariants(t, w)
	_, more = walk.Next(out)
	assert.False(t, more)
	checkInvariants(t, w)
}

func TestALongWalkReachesItsPosition(t *testing.T) {
	w := newMap(0)
	h := w.Hash(1)
	s := w.Shard(h)
	for position := range int64(20) {
		op := &waiter{}
		m := machine.Of(op)
		require.True(t, (&machine.Hold{Op: op}).Begin(1, 1))
		require.True(t, s.Watch(m, 0, &Wait[int]{1, position, h}))
	}
	var c Cursor[int]
	out := make([]*machine.Machine, 2) // so small a batch that the walk needs markers
	reached := 0
	for n, more := s.Begin(&c, 1, h, 9, out); ; n, more = c.Next(out) {
		reached += n
		if !more {
			break
		}
	}
	assert.Equal(t, 10, reached, "0 to 9")
}

// While no worker takes signals, keys that are signalled come and go. The queue stays
// bounded, and forgets no key that is waited for.
func TestTheQueueForgetsKeysThatHaveLeftTheMap(t *testing.T) {
	w := New(Config[int]{Shards: 1, StaleLimit: 10})
	s := w.shards[0]
	signal := func(key int, t *Together) { s.Signal(key, w.Hash(key), EveryPosition, t) }
	for key := range 5 {
		wait(t, w, key)
		signal(key, nil)
	}
	for key := 5; key < 5_000; key++ {
		m := wait(t, w, key)
		signal(key, new(Together))
		end(w, key, m)
		if key%50 == 0 {
			checkInvariants(t, w)
		}
	}
	assert.LessOrEqual(t, int(s.mu.signals.len), 5+2*maxLeft)
	var taken []int
	for w.Signalled() {
		if key, ok := w.TakeSignal(0); ok {
			taken = append(taken, key.Key)
		}
	}
	assert.Equal(t, []int{0, 1, 2, 3, 4}, taken)
	checkInvariants(t, w)
	assert.Nil(t, s.mu.together)

	// All keys of a queue leave: its shard has no signals any more, and gets new ones.
	for round := range 3 {
		var all []*machine.Machine
		for key := range 200 {
			all = append(all, wait(t, w, 10_000+key))
			signal(10_000+key, nil)
		}
		for key, m := range all {
			end(w, 10_000+key, m)
			checkInvariants(t, w)
		}
		for w.Signalled() {
			_, ok := w.TakeSignal(0)
			assert.False(t, ok, "round %d", round)
		}
		checkInvariants(t, w)
	}
}

func TestAKeyLeavesACallThatHasBegun(t *testing.T) {
	w := newMap(0)
	m := wait(t, w, 1, 2)
	of := func(key int) *Shard[int] { return w.Shard(w.Hash(key)) }
	for _, begun := range []bool{false, true} {
		together := new(Together)
		require.True(t, queued(of(1), 1, w.Hash(1), EveryPosition, together))
		if begun {
			assert.True(t, together.First(m))
			assert.False(t, together.First(m))
		}
		assert.False(t, queued(of(1), 1, w.Hash(1), EveryPosition, together), "of the same call")
		taken, ok := of(1).takeSignal()
		require.True(t, ok)
		assert.Same(t, together, taken.Together)

		of(1).Signal(1, w.Hash(1), EveryPosition, together)
		assert.False(t, queued(of(1), 1, w.Hash(1), EveryPosition, nil), "of another call")
		taken, _ = of(1).takeSignal()
		if begun {
			assert.Nil(t, taken.Together, "it skips no operation")
		} else {
			assert.Same(t, together, taken.Together)
		}
	}
	alone := wait(t, w, 3)
	together := new(Together)
	assert.True(t, together.First(alone))
	assert.True(t, together.First(alone), "it waits for one key")
}

// queued signals key and reports whether that has queued it.
func queued[K comparable](s *Shard[K], key K, hash uint64, upTo int64, t *Together) bool {
	queued, _ := s.Signal(key, hash, upTo, t)
	return queued
}
