package watchers

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

// checkInvariants requires that every ring is whole, every count right, every list
// where it belongs, and nothing kept that should be forgotten.
func checkInvariants(t *testing.T, w *Watchers[int]) {
	t.Helper()
	stale := 0
	for i := range w.shards {
		s := &w.shards[i]
		watched, lists := 0, map[*keyList[int]]bool{}
		require.True(t, len(s.mu.keys.buckets) == 0 || bits.OnesCount(uint(len(s.mu.keys.buckets))) == 1, "buckets are a power of two")
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
				watched += checkRing(t, &l.unordered, int(l.readers))
				if l.ordered != nil {
					watched += checkRing(t, &l.ordered.List, int(l.readers)+len(l.ordered.index.fences))
				}
				checkOrder(t, l)
			}
		}
		require.Len(t, lists, int(s.mu.keys.len))
		require.LessOrEqual(t, int(s.mu.keys.len), len(s.mu.keys.buckets))
		require.Equal(t, watched, s.mu.watched)

		free := 0
		for l := s.mu.keys.free; l != nil; l = l.chain {
			free++
			require.False(t, lists[l], "free and in the table")
			require.True(t, l.idle() && l.key == 0)
			require.True(t, l.ordered == nil || l.ordered.index.fences == nil)
			require.False(t, l.signalled)
			require.Same(t, s, l.shard)
		}
		require.EqualValues(t, free, s.mu.keys.nfree)
		require.LessOrEqual(t, free, maxFree)

		queued := map[*keyList[int]]bool{}
		for l := s.mu.signals.first; l != nil; l = l.signal.next {
			require.True(t, l.signalled)
			require.False(t, queued[l], "signalled twice")
			queued[l] = true
			if l.signal.next == nil {
				require.Same(t, l, s.mu.signals.last)
			}
		}
		for l := range lists {
			require.Equal(t, queued[l], l.signalled)
		}
		require.Equal(t, len(queued) > 0, w.signalled[i/64].Load()&(1<<(i%64)) != 0, "the bitmap of signalled shards")

		for _, watch := range s.stale.watches {
			require.NotNil(t, watch.List())
			require.Same(t, s, watch.List().Home().(*keyList[int]).shard)
			require.Equal(t, operation.Over, watch.Machine().Acquire(), "only what has ended is stale")
		}
		stale += len(s.stale.watches)
	}
	require.Equal(t, stale, w.Stale())
	require.LessOrEqual(t, int64(stale), w.staleLimit)
}

// checkRing walks a list both ways and returns its length.
func checkRing(t *testing.T, l *operation.List, markers int) (n int) {
	t.Helper()
	var forth, back []*operation.Watch
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
	require.LessOrEqual(t, len(forth)-n, 2*markers, "no marker is left behind")
	return n
}

// checkOrder requires that the ordered list is, and that its fences stand in it.
func checkOrder(t *testing.T, l *keyList[int]) {
	t.Helper()
	if l.ordered != nil {
		fences := l.ordered.index.fences
		last := int64(Any)
		for w := l.ordered.First(); w != nil; w = l.ordered.Next(w) {
			if w.Position() < last {
				require.Fail(t, "not in order of position")
			}
			last = w.Position()
			if len(fences) > 0 && w == fences[0] {
				fences = fences[1:]
			}
		}
		require.Empty(t, fences, "every fence stands in its list, in the order of the index")
	}
	for w := l.unordered.First(); w != nil; w = l.unordered.Next(w) {
		if w.Machine() != nil && w.Position() != Any {
			require.Fail(t, "a position among those that have none")
		}
	}
}

// modelled is an operation in the model: held, like one that registers for ever.
type modelled struct {
	m    *operation.Machine
	keys []int
	at   []int64
}

// walk is a cursor under way, and what it has to visit.
type walk struct {
	cursor  Cursor[int]
	key     int
	upTo    int64
	begun   map[*operation.Machine]bool // those that were there when it began, and still are
	visited []*operation.Machine
	out     int
	more    bool
}

func TestTheMapAgainstAModel(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { playModel(t, rand.New(rand.NewPCG(seed, 2))) })
	}
}

func playModel(t *testing.T, rng *rand.Rand) {
	t.Helper()
	limit := rng.IntN(4)
	w := newMap(limit)
	keys := 1 + rng.IntN(60)
	var live []*modelled
	var walks []*walk
	purgeable, ended := 0, int64(0)
	position := func() int64 { return []int64{Any, 0, 5, rng.Int64N(1000), 1000 + rng.Int64N(5)}[rng.IntN(5)] }
	gone := func(o *modelled) {
		live = slices.DeleteFunc(live, func(other *modelled) bool { return other == o })
		for _, walk := range walks {
			delete(walk.begun, o.m)
		}
	}
	for range 600 {
		switch rng.IntN(10) {
		case 0, 1, 2: // watch
			o := &modelled{}
			for _, key := range rng.Perm(keys)[:1+rng.IntN(min(keys, 4))] {
				o.keys, o.at = append(o.keys, key), append(o.at, position())
			}
			op := &waiter{}
			o.m = operation.Of(op)
			require.True(t, o.m.Begin(op, len(o.keys)))
			for i, key := range o.keys {
				require.True(t, w.Shard(w.Hash(key)).Watch(o.m, i, key, w.Hash(key), o.at[i]))
			}
			live = append(live, o)
		case 3, 4, 5: // some end, at the shard of one of their keys, while others are busy
			if len(live) == 0 {
				continue
			}
			key := live[rng.IntN(len(live))].keys[0]
			s := w.Shard(w.Hash(key))
			var batch Ending
			var left []*modelled
			for _, o := range live {
				if slices.Contains(o.keys, key) && len(left) < 1+rng.IntN(5) {
					left = append(left, o)
					batch.Machines, batch.Outcomes = append(batch.Machines, o.m), append(batch.Outcomes, operation.Forced)
				}
			}
			busy := &w.shards[rng.IntN(len(w.shards))]
			foreign := 0
			for _, o := range left {
				for _, k := range o.keys {
					if w.Shard(w.Hash(k)) == busy {
						foreign++
					}
				}
			}
			if busy != s && foreign+purgeable <= limit {
				busy.mu.Lock()
				require.True(t, s.Leave(batch))
				busy.mu.Unlock()
				purgeable += foreign
			} else {
				require.True(t, s.Leave(batch))
			}
			require.Nil(t, s.Exit())
			for _, o := range left {
				o.m.Settle(operation.Forced, nil)
				gone(o)
			}
			ended += int64(len(left))
		case 6: // one is rejected after all
			if len(live) > 0 {
				o := live[rng.IntN(len(live))]
				require.True(t, w.Shard(w.Hash(o.keys[0])).Withdraw(o.m))
				o.m.Reject(true)
				gone(o)
			}
		case 7: // a walk begins
			walk := &walk{key: rng.IntN(keys), upTo: []int64{Any, 0, 5, 500, Everything}[rng.IntN(5)], begun: map[*operation.Machine]bool{}, out: 1 + rng.IntN(6)}
			for _, o := range live {
				if i := slices.Index(o.keys, walk.key); i >= 0 && o.at[i] <= walk.upTo {
					walk.begun[o.m] = true
				}
			}
			out := make([]*operation.Machine, walk.out)
			n, more := w.Shard(w.Hash(walk.key)).Begin(&walk.cursor, walk.key, w.Hash(walk.key), walk.upTo, out)
			walk.visited, walk.more = append(walk.visited, out[:n]...), more
			walks = append(walks, walk)
		case 8: // walks go on
			for _, walk := range walks {
				if walk.more && rng.IntN(2) == 0 {
					out := make([]*operation.Machine, walk.out)
					n, more := walk.cursor.Next(out)
					walk.visited, walk.more = append(walk.visited, out[:n]...), more
				}
			}
		case 9:
			require.Equal(t, purgeable, w.Purge())
			purgeable = 0
		}
		walks = slices.DeleteFunc(walks, func(walk *walk) bool {
			if walk.more {
				return false
			}
			once := map[*operation.Machine]bool{}
			for _, m := range walk.visited {
				require.False(t, once[m], "visited twice")
				once[m] = true
			}
			for m := range walk.begun {
				require.True(t, once[m], "passed over")
			}
			return true
		})
		checkInvariants(t, w)
		compare(t, w, live, purgeable, ended)
	}
	for _, walk := range walks {
		for walk.more {
			_, walk.more = walk.cursor.Next(make([]*operation.Machine, 9))
		}
	}
	w.Purge()
	for len(live) > 0 {
		s := w.Shard(w.Hash(live[0].keys[0]))
		s.Leave(Ending{Machines: []*operation.Machine{live[0].m}, Outcomes: []operation.Outcome{operation.Closed}})
		require.Nil(t, s.Exit())
		live = live[1:]
	}
	checkInvariants(t, w)
	var sum Totals
	for i := range w.shards {
		w.shards[i].Totals(&sum)
	}
	assert.Zero(t, sum.Keys)
	assert.Zero(t, sum.Watched)
	assert.Zero(t, sum.Counts[operation.Pending])
	assert.Zero(t, sum.Running)
}

// compare requires that every key's lists hold what the model says, in its order.
func compare(t *testing.T, w *Watchers[int], live []*modelled, stale int, ended int64) {
	t.Helper()
	want := map[int][2][]*operation.Machine{}
	watched := 0
	type entry struct {
		m   *operation.Machine
		key int
	}
	at := map[entry]int64{}
	for _, o := range live {
		for i, key := range o.keys {
			at[entry{o.m, key}] = o.at[i]
			lists := want[key]
			if o.at[i] == Any {
				lists[0] = append(lists[0], o.m)
			} else {
				lists[1] = append(lists[1], o.m)
			}
			want[key] = lists
			watched++
		}
	}
	for key, lists := range want {
		slices.SortStableFunc(lists[1], func(a, b *operation.Machine) int { return int(at[entry{a, key}] - at[entry{b, key}]) })
		l := w.Shard(w.Hash(key)).mu.keys.find(key, w.Hash(key))
		require.NotNil(t, l)
		require.True(t, l.ordered != nil || len(lists[1]) == 0)
		for i, list := range l.lists() {
			var got []*operation.Machine
			for watch := list.First(); watch != nil; watch = list.Next(watch) {
				if m := watch.Machine(); m != nil && m.Outcome() == operation.Pending {
					got = append(got, m)
				}
			}
			require.True(t, slices.Equal(lists[i], got), "key %d: the order in its list", key)
		}
	}
	var sum Totals
	for i := range w.shards {
		w.shards[i].Totals(&sum)
	}
	require.EqualValues(t, len(live), sum.Counts[operation.Pending])
	require.Equal(t, watched+stale, sum.Watched)
	require.Equal(t, ended, sum.Counts[operation.Forced])
	require.Zero(t, sum.Running)
}

func TestTheOrderedListAgainstASortedModel(t *testing.T) {
	// Long lists, with insertions everywhere and removals: the index is built, split,
	// rebuilt and outlives what it was built for.
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := New(Config[int]{Shards: 1})
		s := &w.shards[0]
		type place struct {
			m        *operation.Machine
			position int64
		}
		var model []place
		for step := range 6000 {
			if len(model) > 0 && (step > 5000 || rng.IntN(4) == 0) {
				i := rng.IntN(len(model))
				s.Leave(Ending{Machines: []*operation.Machine{model[i].m}, Outcomes: []operation.Outcome{operation.Forced}})
				s.Exit()
				model = slices.Delete(model, i, i+1)
			} else {
				position := []int64{int64(step), rng.Int64N(int64(step) + 1), 77, int64(step) - rng.Int64N(64)}[rng.IntN(4)]
				op := &waiter{}
				m := operation.Of(op)
				require.True(t, m.Begin(op, 1))
				require.True(t, s.Watch(m, 0, 1, w.Hash(1), position))
				i, _ := slices.BinarySearchFunc(model, position, func(p place, position int64) int {
					if p.position <= position {
						return -1
					}
					return 1
				})
				model = slices.Insert(model, i, place{m, position})
			}
			if step%97 != 0 && step != 5999 {
				continue
			}
			checkInvariants(t, w)
			l := s.mu.keys.find(1, w.Hash(1))
			i := 0
			for watch := l.ordered.First(); watch != nil; watch = l.ordered.Next(watch) {
				if m := watch.Machine(); m != nil {
					require.True(t, i < len(model) && model[i].m == m, "place %d", i)
					i++
				}
			}
			require.Len(t, model, i)
		}
		require.NotEmpty(t, s.mu.keys.find(1, w.Hash(1)).ordered.index.fences, "the index was in use")
	}
}

func TestTheTableAgainstAMap(t *testing.T) {
	w := New(Config[int]{Shards: 1})
	s := &w.shards[0]
	model := map[int]*operation.Machine{}
	rng := rand.New(rand.NewPCG(1, 4))
	for step := range 8000 {
		key := rng.IntN(400)
		if step > 6000 {
			key = rng.IntN(30) // it shrinks
		}
		if m := model[key]; m != nil || step > 7000 {
			if m != nil {
				s.Leave(Ending{Machines: []*operation.Machine{m}, Outcomes: []operation.Outcome{operation.Forced}})
				s.Exit()
				delete(model, key)
			}
		} else {
			op := &waiter{}
			model[key] = operation.Of(op)
			require.True(t, model[key].Begin(op, 1))
			s.Watch(model[key], 0, key, w.Hash(key), Any)
		}
		if step%200 == 0 {
			checkInvariants(t, w)
		}
		require.Equal(t, len(model), int(s.mu.keys.len))
		l := s.mu.keys.find(key, w.Hash(key))
		require.Equal(t, model[key] != nil, l != nil)
	}
	for key, m := range model {
		k, hash := KeyOf[int](m)
		require.Equal(t, key, k)
		require.Equal(t, w.Hash(key), hash)
	}
	assert.LessOrEqual(t, len(s.mu.keys.buckets), 256, "it has shrunk")
	for key := range 200 {
		if model[key] == nil {
			model[key] = wait(t, w, key)
		}
	}
	for key, m := range model {
		end(w, key, m)
		s.Exit()
	}
	checkInvariants(t, w)
	assert.EqualValues(t, maxFree, s.mu.keys.nfree, "kept for the next keys")
	assert.LessOrEqual(t, len(s.mu.keys.buckets), 2*minBuckets)
}

func TestKeysWithEqualHashesAreApart(t *testing.T) {
	w := newMap(0)
	s := w.Shard(42)
	var ops []*operation.Machine
	for key := range 3 {
		op := &waiter{}
		m := operation.Of(op)
		require.True(t, m.Begin(op, 1))
		require.True(t, s.Watch(m, 0, key, 42, Any))
		ops = append(ops, m)
	}
	var c Cursor[int]
	out := make([]*operation.Machine, 4)
	for key, m := range ops {
		n, _ := s.Begin(&c, key, 42, Everything, out)
		require.Equal(t, 1, n)
		require.Same(t, m, out[0])
	}
}
