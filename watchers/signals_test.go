package watchers

import (
	"math/rand/v2"
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

	assert.True(t, queued(s, 1, h, EveryPosition, false), "somebody has to take it")
	assert.False(t, queued(s, 1, h, EveryPosition, false), "marked already")
	assert.True(t, w.Signalled())
	taken, ok := w.TakeSignal(0)
	assert.True(t, ok)
	assert.Equal(t, Signalled[int]{Key: 1, Hash: h, UpTo: AnyPosition}, taken, "nobody waits for a position")
	assert.False(t, w.Signalled())

	// The check of the key that was taken may still be running, so this signal counts anew.
	assert.True(t, queued(s, 1, h, EveryPosition, false))
	_, ok = w.TakeSignal(0)
	assert.True(t, ok)
	assert.EqualValues(t, 3, s.mu.signals.made)
}

func TestCoalescedSignalsReachTheHighestPosition(t *testing.T) {
	for _, positions := range [][]int64{{0, 1, 0}, {1, 0, 0}, {0, 0, 1}} {
		w := newMap(0)
		h := w.Hash(1)
		waitAt(t, w, 1, 7)
		for _, upTo := range positions {
			w.Shard(h).Signal(1, h, upTo, false)
		}
		taken, ok := w.TakeSignal(0)
		assert.True(t, ok)
		assert.EqualValues(t, 1, taken.UpTo)
		w.Shard(h).Signal(1, h, 0, false)
		taken, _ = w.TakeSignal(0)
		assert.Zero(t, taken.UpTo, "what was taken is over")
	}
}

// A check in order may be handed over, and then coalesce with a signal up to a position.
func TestASignalInOrderReachesEveryPosition(t *testing.T) {
	w := newMap(0)
	wait(t, w, 1)
	h := w.Hash(1)
	w.Shard(h).Signal(1, h, EveryPosition, true)
	taken, _ := w.TakeSignal(0)
	waitAt(t, w, 1, 7)
	w.Shard(h).Signal(1, h, taken.UpTo, taken.InOrder)
	w.Shard(h).Signal(1, h, 3, false)
	taken, ok := w.TakeSignal(0)
	assert.True(t, ok)
	assert.Equal(t, int64(EveryPosition), taken.UpTo)
}

func TestSignalledKeysOfAShardAreTakenInTheirOrder(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 1})
	for key := range 5 {
		waitAt(t, w, key, 100)
	}
	// Each is signalled in its own way: up to a position, in order, and twice, up to two positions.
	for _, s := range []Signalled[int]{{3, 0, 30, false}, {0, 0, 1, false}, {4, 0, EveryPosition, true}, {1, 0, 10, false}, {2, 0, EveryPosition, false}, {0, 0, 2, false}, {3, 0, 29, false}} {
		w.Shard(0).Signal(s.Key, w.Hash(s.Key), s.UpTo, s.InOrder)
	}
	checkInvariants(t, w)
	for _, want := range []Signalled[int]{{3, 0, 30, false}, {0, 0, 2, false}, {4, 0, EveryPosition, true}, {1, 0, 10, false}, {2, 0, EveryPosition, false}} {
		want.Hash = w.Hash(want.Key)
		taken, ok := w.TakeSignal(7)
		assert.True(t, ok)
		assert.Equal(t, want, taken)
		checkInvariants(t, w)
	}
	_, ok := w.TakeSignal(7)
	assert.False(t, ok)
}

// TakeSignal finds every signalled shard wherever it begins, in the first word of the bitmap
// and in later ones.
func TestTakeSignalFindsEveryShardForEveryTurn(t *testing.T) {
	for _, shards := range []int{1, 8, 64, 256} {
		w := New(Config[int]{Kick: func() {}, Shards: shards})
		for from := range uint(300) {
			want := map[int]bool{}
			for key := range 5 {
				if from == 0 {
					wait(t, w, key)
				}
				require.True(t, queued(w.Shard(w.Hash(key)), key, w.Hash(key), EveryPosition, false))
				want[key] = true
			}
			for len(want) > 0 {
				require.True(t, w.Signalled())
				taken, ok := w.TakeSignal(from)
				require.True(t, ok)
				require.True(t, want[taken.Key])
				delete(want, taken.Key)
			}
			require.False(t, w.Signalled())
		}
	}
}

func TestASignalOfAKeyWithoutWaitersIsDropped(t *testing.T) {
	kicks := 0
	w := New(Config[int]{Kick: func() { kicks++ }, Shards: 8})
	h := w.Hash(1)
	s := w.Shard(h)
	assert.False(t, queued(s, 1, h, EveryPosition, false))
	assert.Zero(t, kicks, "there is no work")
	m := wait(t, w, 1)
	assert.True(t, queued(s, 1, h, EveryPosition, false))
	assert.False(t, queued(s, 1, h, EveryPosition, false))
	assert.Equal(t, []int64{1, 3}, []int64{int64(kicks), s.mu.signals.made}, "one kick for one piece of work")
	end(w, 1, m) // the key leaves the map while it is marked
	wait(t, w, 1)
	assert.True(t, queued(s, 1, h, EveryPosition, false), "the key is another one")
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
	require.True(t, queued(s, 1, h, EveryPosition, false))
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
		require.True(t, machine.Of(op).Begin(op, 1, 1))
		require.Zero(t, s.Watch(m, 0, &Wait[int]{1, position, h}))
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

// While no worker takes signals, keys that are signalled come and go. The queue keeps those
// that are waited for, and no others.
func TestTheQueueForgetsKeysThatHaveLeftTheMap(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 1, StaleLimit: 10})
	s := w.Shard(0)
	signal := func(key int, inOrder bool) { s.Signal(key, w.Hash(key), EveryPosition, inOrder) }
	for key := range 5 {
		wait(t, w, key)
		signal(key, false)
	}
	for key := 5; key < 5_000; key++ {
		m := wait(t, w, key)
		signal(key, true)
		end(w, key, m)
		if key%50 == 0 {
			checkInvariants(t, w)
		}
	}
	var taken []int
	for w.Signalled() {
		key, ok := w.TakeSignal(0)
		require.True(t, ok)
		taken = append(taken, key.Key)
		assert.False(t, key.InOrder, "as the keys that have left")
	}
	assert.Equal(t, []int{0, 1, 2, 3, 4}, taken)
	checkInvariants(t, w)

	// All keys of a queue leave: its shard has no signals any more, and gets new ones.
	for round := range 3 {
		var all []*machine.Machine
		for key := range 200 {
			all = append(all, wait(t, w, 10_000+key))
			signal(10_000+key, false)
		}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, m := range all {
			key, _ := FirstKey[int](m)
			end(w, key, m)
			checkInvariants(t, w)
		}
		assert.False(t, w.Signalled(), "round %d", round)
	}
}

// Signals of a key make one check. It is in order if all of them ask for that.
func TestCoalescedSignalsAreInOrderIfAllAre(t *testing.T) {
	type made struct {
		upTo    int64
		inOrder bool
	}
	inOrder, plain, upTo5 := made{EveryPosition, true}, made{EveryPosition, false}, made{5, false}
	for _, c := range []struct {
		signals []made
		want    made
	}{
		{[]made{inOrder}, inOrder},
		{[]made{inOrder, inOrder}, inOrder},
		{[]made{inOrder, plain}, plain},
		{[]made{plain, inOrder}, plain},
		{[]made{inOrder, upTo5}, plain},
		{[]made{upTo5, inOrder}, plain},
		{[]made{inOrder, upTo5, inOrder}, plain},
		{[]made{upTo5}, upTo5},
	} {
		w := newMap(0)
		h := w.Hash(1)
		s := w.Shard(h)
		m := waitAt(t, w, 1, 7)
		for range 2 { // the second time, nothing of the first is left
			for i, signal := range c.signals {
				assert.Equal(t, i == 0, queued(s, 1, h, signal.upTo, signal.inOrder))
			}
			taken, ok := w.TakeSignal(0)
			assert.True(t, ok)
			assert.Equal(t, Signalled[int]{Key: 1, Hash: h, UpTo: c.want.upTo, InOrder: c.want.inOrder}, taken, "%v", c.signals)
			_, ok = w.TakeSignal(0)
			assert.False(t, ok, "one check")
		}
		end(w, 1, m)
		checkInvariants(t, w)
	}
}

// A check in order is asked for by one signal, not by the key or by the list that is used for
// the next key.
func TestInOrderEndsWithItsSignal(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 1})
	s := w.Shard(0)
	signal := func(key int, inOrder bool) bool { return queued(s, key, w.Hash(key), EveryPosition, inOrder) }
	take := func() (inOrder, ok bool) {
		taken, ok := w.TakeSignal(0)
		return taken.InOrder, ok
	}
	m := wait(t, w, 1)
	for _, inOrder := range []bool{true, false, true, false} {
		require.True(t, signal(1, inOrder))
		got, ok := take()
		assert.True(t, ok)
		assert.Equal(t, inOrder, got)
	}

	require.True(t, signal(1, true))
	l := s.mu.keys.find(1, w.Hash(1))
	end(w, 1, m) // the key leaves the map while it is marked
	_, ok := take()
	assert.False(t, ok)
	wait(t, w, 2)
	require.Same(t, l, s.mu.keys.find(2, w.Hash(2)), "the list is used for another key")
	require.True(t, signal(2, false))
	inOrder, ok := take()
	assert.True(t, ok)
	assert.False(t, inOrder)
	checkInvariants(t, w)
}

// queued signals key and reports whether that has queued it.
func queued[K comparable](s *Shard[K], key K, hash uint64, upTo int64, inOrder bool) bool {
	l := s.mu.keys.find(key, hash)
	marked := l != nil && l.signalled
	return s.Signal(key, hash, upTo, inOrder) && !marked
}
