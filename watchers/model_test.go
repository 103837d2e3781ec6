package watchers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// modelled is an operation in the model. The test holds it all the time, as a
// registration does.
type modelled struct {
	m    *machine.Machine
	keys []int
	at   []int64
}

// walk is a walk that has begun, with the operations that it has to visit.
type walk struct {
	cursor  Cursor[int]
	key     int
	upTo    int64
	begun   map[*machine.Machine]bool // operations that were linked when it began and still are
	visited []*machine.Machine
	out     int
	more    bool
}

func TestTheMapAgainstAModel(t *testing.T) {
	for seed := range uint64(6) {
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
	ended := int64(0)
	position := func() int64 { return []int64{AnyPosition, 0, 5, rng.Int64N(1000), 1000 + rng.Int64N(5)}[rng.IntN(5)] }
	gone := func(o *modelled) {
		live = slices.DeleteFunc(live, func(other *modelled) bool { return other == o })
		for _, walk := range walks {
			delete(walk.begun, o.m)
		}
	}
	for range 400 {
		switch rng.IntN(9) {
		case 0, 1, 2: // watch
			o := &modelled{}
			most := min(keys, 4)
			if rng.IntN(5) == 0 { // arrays that are not used again
				most = min(keys, 12)
			}
			for _, key := range rng.Perm(keys)[:1+rng.IntN(most)] {
				o.keys, o.at = append(o.keys, key), append(o.at, position())
			}
			op := &waiter{}
			o.m = machine.Of(op)
			require.True(t, machine.Of(op).Begin(op, len(o.keys), 1))
			for i, key := range o.keys {
				require.Zero(t, w.Shard(w.Hash(key)).Watch(o.m, i, &Wait[int]{key, o.at[i], w.Hash(key)}))
			}
			live = append(live, o)
		case 3, 4, 5: // some end, in the shard of one of their keys, while other shards are locked
			if len(live) == 0 {
				continue
			}
			key := live[rng.IntN(len(live))].keys[0]
			s := w.Shard(w.Hash(key))
			var left []*modelled
			var machines []*machine.Machine
			var outcomes []machine.Outcome
			for _, o := range live {
				if slices.Contains(o.keys, key) && len(left) < 1+rng.IntN(5) {
					left = append(left, o)
					machines, outcomes = append(machines, o.m), append(outcomes, machine.Forced)
				}
			}
			busy := w.Shard(uint64(rng.IntN(len(w.slots))))
			foreign := 0
			for _, o := range left {
				for _, k := range o.keys {
					if w.Shard(w.Hash(k)) == busy {
						foreign++
					}
				}
			}
			if busy != s && foreign <= limit {
				busy.mu.Lock()
				s.Leave(machines, outcomes, make([]int, len(machines)))
				require.Equal(t, foreign, w.Stale())
				if rng.IntN(2) == 0 {
					busy.unlock()
				} else {
					busy.mu.Unlock()
					require.Equal(t, foreign, w.Purge())
				}
			} else {
				s.Leave(machines, outcomes, make([]int, len(machines)))
			}
			for _, o := range left {
				wishes.Settle([]*machine.Machine{o.m}, []machine.Outcome{machine.Forced}, nil)
				gone(o)
			}
			ended += int64(len(left))
		case 6: // one walk is stopped early, or takes the rest at once
			if len(walks) > 0 {
				if walk := walks[rng.IntN(len(walks))]; walk.more {
					if walk.more = false; rng.IntN(2) == 0 {
						walk.cursor.Stop()
						walk.begun = nil
					} else {
						walk.visited = append(walk.visited, restOf(&walk.cursor)...)
					}
				}
			}
		case 7: // a walk begins
			walk := &walk{key: rng.IntN(keys), upTo: []int64{AnyPosition, 0, 5, 500, EveryPosition}[rng.IntN(5)], begun: map[*machine.Machine]bool{}, out: 1 + rng.IntN(6)}
			for _, o := range live {
				if i := slices.Index(o.keys, walk.key); i >= 0 && o.at[i] <= walk.upTo {
					walk.begun[o.m] = true
				}
			}
			out := make([]*machine.Machine, walk.out)
			n, more := w.Shard(w.Hash(walk.key)).Begin(&walk.cursor, walk.key, w.Hash(walk.key), walk.upTo, out)
			walk.visited, walk.more = append(walk.visited, out[:n]...), more
			walks = append(walks, walk)
		case 8: // walks go on
			for _, walk := range walks {
				if walk.more && rng.IntN(2) == 0 {
					out := make([]*machine.Machine, walk.out)
					n, more := walk.cursor.Next(out)
					walk.visited, walk.more = append(walk.visited, out[:n]...), more
				}
			}
		}
		walks = slices.DeleteFunc(walks, func(walk *walk) bool {
			if walk.more {
				return false
			}
			once := map[*machine.Machine]bool{}
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
		compare(t, w, live, ended)
	}
	for _, walk := range walks {
		for walk.more {
			_, walk.more = walk.cursor.Next(make([]*machine.Machine, 9))
		}
	}
	for len(live) > 0 {
		s := w.Shard(w.Hash(live[0].keys[0]))
		s.Leave([]*machine.Machine{live[0].m}, []machine.Outcome{machine.Closed}, make([]int, 1))
		live = live[1:]
	}
	checkInvariants(t, w)
	var sum Totals
	for i := range w.slots {
		w.Shard(uint64(i)).Totals(&sum)
	}
	assert.Zero(t, sum.Keys)
	assert.Zero(t, sum.Watched)
	assert.Zero(t, sum.Pending())
	assert.Zero(t, sum.Counts[machine.Pending])
}

// compare requires that every key's lists hold what the model says, in its order.
func compare(t *testing.T, w *Watchers[int], live []*modelled, ended int64) {
	t.Helper()
	want := map[int][2][]*machine.Machine{}
	watched := 0
	type entry struct {
		m   *machine.Machine
		key int
	}
	at := map[entry]int64{}
	for _, o := range live {
		for i, key := range o.keys {
			at[entry{o.m, key}] = o.at[i]
			lists := want[key]
			if o.at[i] == AnyPosition {
				lists[0] = append(lists[0], o.m)
			} else {
				lists[1] = append(lists[1], o.m)
			}
			want[key] = lists
			watched++
		}
	}
	for key, lists := range want {
		slices.SortStableFunc(lists[1], func(a, b *machine.Machine) int { return int(at[entry{a, key}] - at[entry{b, key}]) })
		l := w.Shard(w.Hash(key)).mu.keys.find(key, w.Hash(key))
		require.NotNil(t, l)
		var got []*machine.Machine
		for watch := l.First(); watch != nil; watch = l.Next(watch) {
			if m := watch.Machine(); m != nil && m.Outcome() == machine.Pending {
				got = append(got, m)
			}
		}
		require.True(t, slices.Equal(slices.Concat(lists[0], lists[1]), got), "key %d: the order in its list", key)
	}
	var sum Totals
	for i := range w.slots {
		w.Shard(uint64(i)).Totals(&sum)
	}
	require.EqualValues(t, len(live), sum.Pending())
	require.Equal(t, watched, sum.Watched)
	require.Equal(t, ended, sum.Counts[machine.Forced])
}
