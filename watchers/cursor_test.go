package watchers

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// waitAt links a new operation under key at a position. It returns the operation, which
// the caller holds.
func waitAt(t *testing.T, w *Watchers[int], key int, position int64) *machine.Machine {
	t.Helper()
	op := &waiter{}
	m := machine.Of(op)
	require.True(t, machine.Of(op).Begin(op, 1, 1))
	require.Zero(t, w.Shard(w.Hash(key)).Watch(m, 0, &Wait[int]{key, position, w.Hash(key)}))
	return m
}

func TestAKeyEmptiedDuringAWalkIsRemoved(t *testing.T) {
	w := newMap(0)
	ops := []*machine.Machine{wait(t, w, 7), wait(t, w, 7), wait(t, w, 7)}
	var c Cursor[int]
	out := make([]*machine.Machine, 2)
	_, more := w.Shard(w.Hash(7)).Begin(&c, 7, w.Hash(7), EveryPosition, out)
	require.True(t, more)
	end(w, 7, ops...)
	n, more := c.Next(out)
	assert.Zero(t, n)
	assert.False(t, more)
	_, keys := watched(w)
	assert.Zero(t, keys)
	checkInvariants(t, w)
}

// A walk does not visit operations that are linked after it has begun: they are tried
// again by their own registration, and with them the walk might never end.
func TestAWalkSkipsOperationsLinkedLater(t *testing.T) {
	for name, position := range map[string]int64{"without a position": AnyPosition, "at the position": 9} {
		t.Run(name, func(t *testing.T) {
			w := newMap(0)
			s := w.Shard(w.Hash(1))
			for range 4 {
				waitAt(t, w, 1, position)
			}
			var c Cursor[int]
			out := make([]*machine.Machine, 2)
			n, more := s.Begin(&c, 1, w.Hash(1), position, out)
			visited := n
			for more && visited <= 4 {
				waitAt(t, w, 1, position)
				n, more = c.Next(out)
				visited += n
			}
			assert.Equal(t, 4, visited)
		})
	}
}

// A walk that is stopped early leaves no marker and no key in the map.
func TestAStoppedWalkLeavesNoMarkerAndNoKey(t *testing.T) {
	for name, positions := range map[string][]int64{
		"without positions": {AnyPosition, AnyPosition, AnyPosition, AnyPosition}, "with positions": {1, 2, 3, 4}, "both": {AnyPosition, AnyPosition, AnyPosition, 2, 3, 4},
	} {
		t.Run(name, func(t *testing.T) {
			for calls := range 3 {
				w := newMap(0)
				s := w.Shard(w.Hash(1))
				var ops []*machine.Machine
				for _, position := range positions {
					ops = append(ops, waitAt(t, w, 1, position))
				}
				var c Cursor[int]
				out := make([]*machine.Machine, 1)
				_, more := s.Begin(&c, 1, w.Hash(1), EveryPosition, out)
				for range calls {
					_, more = c.Next(out)
				}
				require.True(t, more)
				c.Stop()
				checkInvariants(t, w)
				n, more := s.Begin(&c, 1, w.Hash(1), EveryPosition, make([]*machine.Machine, 9))
				assert.Equal(t, len(positions), n, "it can begin again")
				assert.False(t, more)
				_, more = s.Begin(&c, 1, w.Hash(1), EveryPosition, out)
				require.True(t, more)
				end(w, 1, ops...)
				_, keys := watched(w)
				assert.Equal(t, 1, keys)
				c.Stop()
				_, keys = watched(w)
				assert.Zero(t, keys, "the key was kept for the walk only")
				checkInvariants(t, w)
			}
		})
	}
}

// A walk passes over the markers that other walks, and the index of positions, have put into
// the lists of its key.
func TestAWalkVisitsOperationsAndNoMarkers(t *testing.T) {
	const n = 300
	positions := map[string]func(i int64) int64{
		"without positions": func(int64) int64 { return AnyPosition },
		"with positions":    func(i int64) int64 { return n - i }, // inserted at the front, by means of the index
	}
	for name, position := range positions {
		t.Run(name, func(t *testing.T) {
			w := newMap(0)
			s, hash := w.Shard(w.Hash(1)), w.Hash(1)
			var want []*machine.Machine
			for i := range int64(n) {
				want = append(want, waitAt(t, w, 1, position(i)))
			}
			if name == "with positions" {
				slices.Reverse(want)
			}
			var first Cursor[int]
			few := make([]*machine.Machine, 2)
			_, more := s.Begin(&first, 1, hash, EveryPosition, few)
			require.True(t, more)
			for _, size := range []int{1, 7, n} {
				var c Cursor[int]
				var visited []*machine.Machine
				out := make([]*machine.Machine, size)
				k, more := s.Begin(&c, 1, hash, EveryPosition, out)
				for visited = append(visited, out[:k]...); more; visited = append(visited, out[:k]...) {
					k, more = c.Next(out)
				}
				require.True(t, slices.Equal(want, visited), "in batches of %d", size)
			}
			keys, _ := s.someKeys(0, 1, nil)
			require.Len(t, keys, 1)
			require.True(t, slices.Equal(want, visit(s, keys[0], 7)), "by its place in the map")
			first.Stop()
			checkInvariants(t, w)
		})
	}
}

// markersOf returns how many markers stand in l, but for that before the first position.
func markersOf(l *keyList[int]) (n int) {
	for at := l.First(); at != nil; at = l.Next(at) {
		if at.Machine() == nil && (l.ordered == nil || at != l.ordered.begin.Element()) {
			n++
		}
	}
	return n
}

// Walks between which everybody has left stand at one place: the next walk has their markers join one another, and those
// after it pass over one. The walks lose nothing: each visits whoever it would have visited, and ends where it would
// have ended.
func TestWalksBetweenWhichNobodyStandsAreAtOnePlace(t *testing.T) {
	const walks = 100
	for name, position := range map[string]func(i int64) int64{
		"without positions": func(int64) int64 { return AnyPosition },
		"with positions":    func(i int64) int64 { return i },
	} {
		for nos := range 2 { // they stand at the front, or behind one who says no
			t.Run(fmt.Sprintf("%s, behind %d", name, nos), func(t *testing.T) {
				w := newMap(0)
				s, hash := w.Shard(w.Hash(1)), w.Hash(1)
				var ops []*machine.Machine
				for i := range int64(nos + walks + 4) {
					ops = append(ops, waitAt(t, w, 1, position(i)))
				}
				rest := ops[nos+walks:]
				var cs [walks]Cursor[int]
				out := make([]*machine.Machine, nos+1)
				for i := range cs { // each visits the first, if there is one, and the next, who leaves
					_, more := s.Begin(&cs[i], 1, hash, EveryPosition, out)
					require.True(t, more)
					require.Same(t, ops[nos+i], out[nos])
					end(w, 1, out[nos])
				}
				l := s.mu.keys.find(1, hash)
				require.LessOrEqual(t, markersOf(l), 3, "those of the walks, that of the last one, and the end")
				late := waitAt(t, w, 1, position(1000))
				checkInvariants(t, w)
				for i := range walks / 2 {
					if i%3 == 0 {
						cs[i].Stop()
					} else {
						require.True(t, slices.Equal(rest, restOf(&cs[i])), "walk %d", i)
					}
				}
				end(w, 1, rest...)
				if nos > 0 {
					end(w, 1, ops[0])
				}
				require.Equal(t, []*machine.Machine{late}, visit(s, Key[int]{1, hash}, 2))
				require.LessOrEqual(t, markersOf(l), 2)
				for i := range cs[walks/2:] {
					require.Empty(t, restOf(&cs[walks/2+i]), "the walk was to end before who came late")
				}
				checkInvariants(t, w)
				end(w, 1, late)
				_, keys := watched(w)
				require.Zero(t, keys)
				checkInvariants(t, w)
			})
		}
	}
}

// Markers that join one another from the back to the front make no chain that each walk has to follow.
func TestMarkersThatJoinFromTheBackMakeNoChain(t *testing.T) {
	const walks = 100
	w := newMap(0)
	s, hash := w.Shard(w.Hash(1)), w.Hash(1)
	var ops []*machine.Machine
	for range walks + 2 {
		ops = append(ops, waitAt(t, w, 1, AnyPosition))
	}
	var cs [walks]Cursor[int]
	for i := range cs { // walk i stands before operation i+1
		_, more := s.Begin(&cs[i], 1, hash, EveryPosition, make([]*machine.Machine, i+1))
		require.True(t, more)
	}
	for i := walks - 1; i > 0; i-- {
		end(w, 1, ops[i])
		require.Len(t, visit(s, Key[int]{1, hash}, walks+2), i+2)
	}
	for i := range cs {
		ways := 0
		for m := cs[i].here; m.Into != nil; m = m.Into {
			ways++
		}
		require.LessOrEqual(t, ways, 2, "walk %d", i)
	}
	checkInvariants(t, w)
	for i := range cs {
		require.Equal(t, ops[walks:], restOf(&cs[i]), "walk %d", i)
	}
	checkInvariants(t, w)
}

// Walks that stand at the same place share its marker, and so do those that end at the same place: to pass over a crowd
// takes no more steps than there are places. A marker stays for as long as one of them stands there.
func TestACrowdOfWalksSharesItsPlaces(t *testing.T) {
	const walks, each, places = 100, 3, 5
	for name, position := range map[string]func(i int64) int64{
		"without positions": func(int64) int64 { return AnyPosition },
		"with positions":    func(i int64) int64 { return i },
		"both":              func(i int64) int64 { return max(AnyPosition, i-9) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newMap(0)
			s, hash := w.Shard(w.Hash(1)), w.Hash(1)
			var ops []*machine.Machine
			for i := range int64(10 * each) {
				ops = append(ops, waitAt(t, w, 1, position(i)))
			}
			var cs [walks]Cursor[int]
			out := make([]*machine.Machine, each)
			for i := range cs {
				_, more := s.Begin(&cs[i], 1, hash, EveryPosition, out)
				for range i % places {
					_, more = cs[i].Next(out)
				}
				require.True(t, more)
			}
			l := s.mu.keys.find(1, hash)
			require.LessOrEqual(t, markersOf(l), places+1)
			for i := range cs {
				require.True(t, slices.Equal(ops[each*(i%places+1):], restOf(&cs[i])), "walk %d, whoever has left its place", i)
			}
			require.Zero(t, markersOf(l))
			end(w, 1, ops...)
			checkInvariants(t, w)
		})
	}
}

// A key without operations stays in the table while a walk stands in its list. It does not
// count as a key that operations wait for.
func TestAKeyThatOnlyAWalkKeepsIsNotReported(t *testing.T) {
	w := newMap(0)
	s, hash := w.Shard(w.Hash(7)), w.Hash(7)
	ops := []*machine.Machine{wait(t, w, 7), wait(t, w, 7), wait(t, w, 7)}
	var c Cursor[int]
	_, more := s.Begin(&c, 7, hash, EveryPosition, make([]*machine.Machine, 2))
	require.True(t, more)
	keys, _ := s.someKeys(0, 100, nil)
	require.Len(t, keys, 1)
	assert.Equal(t, []any{7, hash}, []any{keys[0].Key, keys[0].Hash})
	assert.True(t, s.Awaited(7, hash))
	end(w, 7, ops...)
	keys, _ = s.someKeys(0, 100, nil)
	assert.Empty(t, keys)
	assert.False(t, s.Awaited(7, hash))
	awaited := s.Signal(7, hash, EveryPosition, false)
	assert.False(t, awaited)
	var total Totals
	s.Totals(&total)
	assert.EqualValues(t, 1, total.Signals, "that of Signal")
	c.Stop()
	checkInvariants(t, w)
}

// restOf ends a walk and returns the operations that it has not visited.
func restOf(c *Cursor[int]) (rest []*machine.Machine) {
	out := make([]*machine.Machine, 128)
	for more := true; more; {
		var n int
		n, more = c.Next(out)
		rest = append(rest, out[:n]...)
	}
	return rest
}

// visit returns the operations of k, in batches of size.
func visit[K comparable](s *Shard[K], k Key[K], size int) (visited []*machine.Machine) {
	var c Cursor[K]
	out := make([]*machine.Machine, size)
	n, more := s.Begin(&c, k.Key, k.Hash, EveryPosition, out)
	for visited = append(visited, out[:n]...); more; visited = append(visited, out[:n]...) {
		n, more = c.Next(out)
	}
	return visited
}

// Rest returns what Next would, in the same order, and ends the walk as Stop does.
func TestRestReturnsWhatNextWould(t *testing.T) {
	const n = 300 // more than Rest takes at once
	for name, position := range map[string]func(i int64) int64{
		"without positions": func(int64) int64 { return AnyPosition },
		"with positions":    func(i int64) int64 { return n - i },
		"both": func(i int64) int64 {
			if i%2 == 0 {
				return AnyPosition
			}
			return i
		},
	} {
		for _, upTo := range []int64{EveryPosition, n - 20} {
			for _, calls := range []int{0, 1, 30} {
				t.Run(fmt.Sprintf("%s, up to %d, after %d", name, upTo, calls), func(t *testing.T) {
					w := newMap(0)
					s, hash := w.Shard(w.Hash(1)), w.Hash(1)
					var all []*machine.Machine
					for i := range int64(n) {
						all = append(all, waitAt(t, w, 1, position(i)))
					}
					var walks [2]Cursor[int]
					out := make([]*machine.Machine, 7)
					for i := range walks {
						_, more := s.Begin(&walks[i], 1, hash, upTo, out)
						for range calls {
							_, more = walks[i].Next(out)
						}
						require.True(t, more)
					}
					end(w, 1, all[n/2]) // one leaves, and one comes, which no walk visits
					all[n/2] = waitAt(t, w, 1, position(n/2))
					var want []*machine.Machine
					for more := true; more; {
						var k int
						k, more = walks[0].Next(out)
						want = append(want, out[:k]...)
					}
					rest := restOf(&walks[1])
					require.NotEmpty(t, rest)
					require.True(t, slices.Equal(want, rest))
					l := s.mu.keys.find(1, hash)
					require.Zero(t, l.readers)
					require.Nil(t, walks[1].list)
					checkInvariants(t, w) // no marker is left
					_, more := s.Begin(&walks[1], 1, hash, upTo, out)
					require.True(t, more, "it can begin again")
					end(w, 1, all...)
					require.Empty(t, restOf(&walks[1]))
					_, keys := watched(w)
					assert.Zero(t, keys, "the key was kept for the walk only")
					checkInvariants(t, w)
				})
			}
		}
	}
}

// A lookup by another hash never finds a NaN. By its own it does, and it finds no other.
func TestALookupFindsANaNByItsHash(t *testing.T) {
	w := New(Config[float64]{Kick: func() {}, Shards: 1})
	s, nan := w.Shard(0), math.NaN()
	waiting := map[*machine.Machine]bool{}
	watch := func(key float64, hash uint64) {
		op := &waiter{}
		require.True(t, machine.Of(op).Begin(op, 1, 1))
		require.Zero(t, s.Watch(machine.Of(op), 0, &Wait[float64]{key, AnyPosition, hash}))
		waiting[machine.Of(op)] = true
	}
	for range 20 {
		watch(nan, w.Hash(nan)) // each has a list of its own
		watch(1, w.Hash(1.0))
	}
	keys, next := s.someKeys(0, 100, nil)
	require.Zero(t, next)
	require.Len(t, keys, 21)
	for _, k := range keys {
		assert.Equal(t, k.Key == 1, s.Awaited(k.Key, w.Hash(k.Key)))
		for _, m := range visit(s, k, 8) {
			require.True(t, waiting[m], "once")
			delete(waiting, m)
		}
	}
	assert.Empty(t, waiting)
}

// A key that someKeys has returned may have left the map, and another key of the shard may have its memory.
func TestAWalkOverAKeyThatHasLeft(t *testing.T) {
	w := New(Config[int]{Kick: func() {}, Shards: 1})
	s := w.Shard(0)
	for name, signalled := range map[string]bool{"recycled": false, "in the queue of signals": true} {
		t.Run(name, func(t *testing.T) {
			ended := []*machine.Machine{waitAt(t, w, 7, AnyPosition), waitAt(t, w, 7, 3), waitAt(t, w, 7, 1)}
			if signalled {
				s.Signal(7, w.Hash(7), EveryPosition, false)
			}
			keys, _ := s.someKeys(0, 100, nil)
			require.Len(t, keys, 1)
			assert.Len(t, visit(s, keys[0], 1), 3)
			end(w, 7, ended...)
			assert.Empty(t, visit(s, keys[0], 1))
			checkInvariants(t, w)
			w.TakeSignal(0)

			other := wait(t, w, 9)
			assert.Empty(t, visit(s, keys[0], 1), "another key in its memory")
			end(w, 9, other)
			checkInvariants(t, w)
		})
	}
}
