package watchers

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
)

// pause has a walk pause, none of whose operations ends.
func pause(walk **Visit[int]) (n int) {
	(*walk).Next(nil, 0, true)
	return (*walk).N
}

// resume goes on with a walk that has paused.
func resume(walk **Visit[int], size int) []*machine.Machine {
	(*walk).shard.all.group = size
	(*walk).Resume()
	return group(*walk)
}

// A walk visits those up to its position, in the order of the list, and no mark, whatever the size of its groups.
func TestAWalkVisitsThoseUpToItsPosition(t *testing.T) {
	w := newMap(0)
	all := []*machine.Machine{wait(t, w, 1), wait(t, w, 1)}
	for i := range int64(300) {
		all = append(all, waitAt(t, w, 1, 2*(i+1)))
	}
	for i := range int64(300) { // by means of the index
		all = slices.Insert(all, 2+2*int(i), waitAt(t, w, 1, 2*i+1))
	}
	l := w.shard(w.Hash(1)).mu.keys.find(1, w.Hash(1))
	require.NotEmpty(t, l.ordered.index)
	for _, size := range []int{1, 7, groupSize} {
		for upTo, n := range map[int64]int{anyPosition: 2, 0: 2, 1: 3, 9: 11, 600: 602, everyPosition: 602} {
			require.True(t, slices.Equal(all[:n], visit(w, 1, upTo, size)), "up to %d, %d at a time", upTo, size)
		}
	}
	checkInvariants(t, w)
	assert.Empty(t, visit(w, 2, everyPosition, 8), "nobody waits for another key")
	assert.Empty(t, visit(newMap(0), 1, everyPosition, 8))
}

// Those that others end while the walk is under way are not visited, wherever its cursor stands.
func TestALeaverMovesTheCursor(t *testing.T) {
	for leaver := range 4 {
		w := newMap(0)
		var all []*machine.Machine
		for range 4 {
			all = append(all, wait(t, w, 1))
		}
		var walk *Visit[int]
		same(t, all[:2], begin(w, &walk, 1, everyPosition, 2)) // the cursor stands before the third
		end(w, 1, all[leaver])
		want := all[2:]
		if leaver >= 2 {
			want = list(all[5-leaver])
		}
		same(t, want, next(&walk, 2))
		require.Empty(t, next(&walk, 2))
	}
}

// A check that meets a walk visits nobody. The walk begins at the head again, up to the position that the check has asked for.
func TestACheckThatMeetsAWalkLeavesAMark(t *testing.T) {
	w := newMap(0)
	first, low, high := wait(t, w, 1), waitAt(t, w, 1, 3), waitAt(t, w, 1, 7)
	var walk, other *Visit[int]
	same(t, list(first), begin(w, &walk, 1, 3, 1))
	require.Empty(t, begin(w, &other, 1, 5, 1))
	require.Empty(t, begin(w, &other, 1, 7, 1), "the highest position counts")
	require.Empty(t, begin(w, &other, 1, 2, 1))
	require.Nil(t, other)
	same(t, list(low), next(&walk, 1), "it goes to its end first")
	same(t, list(first, low, high), next(&walk, 8))
	require.Empty(t, next(&walk, 8), "the marks of several make one pass")
	require.False(t, w.Signalled())
	same(t, list(first, low), begin(w, &other, 1, 3, 8), "what was asked for is over")
	require.Empty(t, next(&other, 8))
}

// A walk that is asked again and again leaves the key to a worker, whose walk covers what was asked for last.
func TestAWalkEndsThoughOthersKeepAsking(t *testing.T) {
	kicks := 0
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() { kicks++ }, Now: start, Shards: 1})
	m := waitAt(t, w, 1, 5)
	var walk, other *Visit[int]
	passes := 0
	for out := begin(w, &walk, 1, 9, 1); len(out) > 0; out = next(&walk, 1) {
		passes++
		require.Empty(t, begin(w, &other, 1, 9, 1))
	}
	assert.Equal(t, 1+maxAgain, passes)
	assert.Equal(t, 1, kicks)
	out, ok := take(w, &other)
	assert.True(t, ok)
	same(t, list(m), out)
	assert.Equal(t, w.at(1, 9), other.Wait)
	assert.Empty(t, next(&other, 8))
	assert.Equal(t, 1, kicks)
	checkInvariants(t, w)
}

// Those that come while a walk is under way are tried by their registrations. Without positions, they cause no tries of others.
func TestNewcomersCauseNoOtherWalk(t *testing.T) {
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 1})
	for range 4 {
		wait(t, w, 1)
	}
	var walk *Visit[int]
	visited := 0
	for out := begin(w, &walk, 1, everyPosition, 2); len(out) > 0; out = next(&walk, 2) {
		visited += len(out)
		wait(t, w, 1)
		waitAt(t, w, 1, 7)
	}
	assert.Equal(t, 4, visited)
	assert.False(t, w.Signalled())
}

// Where there are positions, newcomers may come to stand before others. A walk that they keep busy leaves the rest to a worker.
func TestAWalkEndsThoughOthersKeepComing(t *testing.T) {
	const waiting = 10
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 1})
	for range waiting - 1 {
		waitAt(t, w, 1, 3)
	}
	last := waitAt(t, w, 1, 30)
	var walk *Visit[int]
	visited := 0
	for out := begin(w, &walk, 1, 50, 1); len(out) > 0; out = next(&walk, 1) {
		visited++
		waitAt(t, w, 1, 20)
	}
	assert.Equal(t, 2*waiting, visited)
	_, ok := take(w, &walk)
	assert.True(t, ok, "the rest, and so everybody, is for a worker")
	out := rest(&walk, groupSize)
	assert.Same(t, last, out[len(out)-1])
	assert.False(t, w.Signalled())
}

// A walk that has paused goes on where it stood.
func TestAPausedWalkGoesOn(t *testing.T) {
	w := newMap(0)
	var all []*machine.Machine
	for i := range int64(6) {
		all = append(all, waitAt(t, w, 1, i))
	}
	var walk, other *Visit[int]
	same(t, all[:2], begin(w, &walk, 1, 3, 2))
	require.Zero(t, pause(&walk))
	require.Equal(t, 1, inside(w), "its callbacks run")
	end(w, 1, all[2])
	same(t, all[3:4], resume(&walk, 2))
	require.Equal(t, 1, inside(w))
	require.Empty(t, begin(w, &other, 1, 4, 8), "a mark")
	same(t, append(slices.Clone(all[:2]), all[3:5]...), next(&walk, 8), "the mark: those that were visited before it are visited again")
	require.Empty(t, next(&walk, 8))
	require.Empty(t, resume(&walk, 8))
}

// A walk that pauses where others have asked leaves the key to a worker, who visits those that were visited before, too.
func TestAWalkThatPausesLeavesWhatOthersAskedForToAWorker(t *testing.T) {
	w := newMap(0)
	var all []*machine.Machine
	for i := range int64(6) {
		all = append(all, waitAt(t, w, 1, i))
	}
	var walk, other *Visit[int]
	same(t, all[:2], begin(w, &walk, 1, 4, 2))
	require.Empty(t, begin(w, &other, 1, 3, 8), "a mark")
	require.Zero(t, pause(&walk))
	out, ok := take(w, &other)
	require.True(t, ok)
	same(t, all[:5], out, "up to the higher of both")
	require.Empty(t, resume(&walk, 8))
	require.Empty(t, next(&other, 8))
	require.False(t, w.Signalled())
}

// A walk that begins while another pauses takes over its rest, also if it is for a lower position. The other one is over.
func TestAWalkThatBeginsInAPauseCoversTheRest(t *testing.T) {
	for name, takesOver := range map[string]func(w *Watchers[int], walk **Visit[int]) []*machine.Machine{
		"check": func(w *Watchers[int], walk **Visit[int]) []*machine.Machine { return begin(w, walk, 1, 1, 8) },
		"signal": func(w *Watchers[int], walk **Visit[int]) (out []*machine.Machine) {
			w.Ask(w.at(1, 1), false)
			out, _ = take(w, walk)
			return out
		},
	} {
		for _, over := range []bool{false, true} { // whether the newer walk is over when the paused one goes on
			w := newMap(0)
			var all []*machine.Machine
			for i := range int64(6) {
				all = append(all, waitAt(t, w, 1, i))
			}
			var walk, newer *Visit[int]
			same(t, all[:2], begin(w, &walk, 1, 3, 2))
			require.Zero(t, pause(&walk))
			same(t, all[:4], takesOver(w, &newer), name)
			if over {
				require.Empty(t, next(&newer, 8))
			}
			require.Empty(t, resume(&walk, 8), name)
			if !over {
				require.Empty(t, next(&newer, 8))
			}
			checkInvariants(t, w)
			require.False(t, w.Signalled())
		}
	}
}

// A key that was signalled in a pause is for a worker: the walk that has paused does not go on beside it.
func TestAPausedWalkLeavesASignalledKeyToTheWorker(t *testing.T) {
	w := newMap(0)
	all := []*machine.Machine{wait(t, w, 1), wait(t, w, 1)}
	var walk, worker *Visit[int]
	same(t, all[:1], begin(w, &walk, 1, everyPosition, 1))
	require.Zero(t, pause(&walk))
	w.Ask(w.at(1, everyPosition), false)
	require.Empty(t, resume(&walk, 8))
	out, ok := take(w, &worker)
	require.True(t, ok)
	same(t, all, out)
	require.Empty(t, next(&worker, 8))
}

// KAFKA-2253: a key may leave the map under a walk, and come back. The walk is over, and finds nobody of the new ones.
func TestKafka2253AWalkIsOverWhenItsKeyHasLeftTheMap(t *testing.T) {
	for _, key := range []int{7, 15} { // the same key comes back, or another one has its memory
		for i := range 6 {
			paused, again, signalled := i%2 == 1, i/2 == 1, i/2 == 2 // and another walk begins, or is asked for
			w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 1})
			all := []*machine.Machine{wait(t, w, 7), waitAt(t, w, 7, 5), waitAt(t, w, 7, 7)}
			var walk, newer *Visit[int]
			same(t, all[:2], begin(w, &walk, 7, everyPosition, 2))
			if paused {
				require.Zero(t, pause(&walk))
			}
			end(w, 7, all...)
			require.Zero(t, totals(w).Keys)
			checkInvariants(t, w)
			late := wait(t, w, key)
			require.Same(t, walk.list, w.shard(0).mu.keys.find(key, w.Hash(key)))
			if again {
				same(t, list(late), begin(w, &newer, key, everyPosition, 8))
			}
			if signalled {
				w.Ask(w.at(key, everyPosition), false)
			}
			if paused {
				require.Empty(t, resume(&walk, 8))
			} else {
				require.Empty(t, next(&walk, 8))
				require.Empty(t, resume(&walk, 8))
			}
			if again {
				require.Equal(t, 1, inside(w), "the newer walk")
				require.Empty(t, next(&newer, 8))
				require.Empty(t, resume(&newer, 8))
			}
			if signalled {
				visited, _ := take(w, &newer)
				same(t, list(late), visited)
				require.Empty(t, rest(&newer, 8))
				newer.Resume()
			}
			require.Zero(t, inside(w))
			end(w, key, late)
			checkInvariants(t, w)
		}
	}
}

// Those that end leave every list, in other shards too, and are counted where they end.
func TestThoseThatEndLeaveTheirLists(t *testing.T) {
	w := newMap(0)
	a, b := twoKeys(w)
	all := []*machine.Machine{wait(t, w, a, b), wait(t, w, b, a), wait(t, w, a, b), wait(t, w, a)}
	var walk *Visit[int]
	same(t, all, begin(w, &walk, a, everyPosition, 8))
	walk.Next(all[:3], 4, false)
	require.Zero(t, walk.N)
	settle(all[:3]...)
	for _, m := range all[:3] {
		assert.Equal(t, machine.Satisfied, m.Outcome())
	}
	sum := totals(w)
	assert.Equal(t, []any{1, 1, int64(4), int64(1), int64(3)}, []any{sum.Keys, sum.Watched, sum.Checks, sum.Wasted, sum.Ended[machine.Satisfied]})
	checkInvariants(t, w)
}

// A claim comes to each operation that waits, until it has as many as it has room for, and takes these out. It waits for no walk, and
// passes over marks.
func TestAClaimComesToEachOnce(t *testing.T) {
	w := newMap(0)
	var all []*machine.Machine
	for i := range int64(20) {
		all = append(all, waitAt(t, w, 1, max(anyPosition, i-5)))
	}
	var walk *Visit[int]
	same(t, all[:4], begin(w, &walk, 1, everyPosition, 4))
	var seen []*machine.Machine
	second := func(m *machine.Machine) bool {
		seen = append(seen, m)
		return len(seen)%2 == 0
	}
	out := make([]*machine.Machine, 3)
	require.Equal(t, 3, w.Claim(w.at(1, 0), second, out))
	same(t, all[:6], seen)
	same(t, []*machine.Machine{all[1], all[3], all[5]}, out)
	settle(out...)
	checkInvariants(t, w)
	seen = nil
	out = make([]*machine.Machine, 20)
	n := w.Claim(w.at(1, 0), second, out)
	require.Equal(t, 8, n, "of the 17 that are left")
	same(t, append([]*machine.Machine{all[0], all[2], all[4]}, all[6:]...), seen)
	settle(out[:n]...)
	checkInvariants(t, w)
	var want []*machine.Machine
	for _, m := range all[4:] {
		if m.Outcome() == machine.Pending {
			want = append(want, m)
		}
	}
	same(t, want, rest(&walk, groupSize), "the walk goes on behind those that it has read")
	assert.Zero(t, w.Claim(Wait[int]{2, 0, w.Hash(1)}, second, out), "nobody waits")
}

// An operation that expires is unchecked if no check has come to it, nor is about to.
func TestOnlyWhatNoCheckComesToIsUnchecked(t *testing.T) {
	for name, c := range map[string]struct {
		do        func(w *Watchers[int], m *machine.Machine)
		checks    uint32
		unchecked bool
	}{
		"nobody has asked": {func(*Watchers[int], *machine.Machine) {}, 0, true},
		"another key":      {func(w *Watchers[int], _ *machine.Machine) { visit(w, 2, everyPosition, 8) }, 0, true},
		"before it":        {func(w *Watchers[int], _ *machine.Machine) { visit(w, 1, 5, 8) }, 1, true},
		"tried":            {func(_ *Watchers[int], m *machine.Machine) { m.Release(false); m.Acquire() }, 0, false},
		"a walk is under way": {func(w *Watchers[int], _ *machine.Machine) {
			begin(w, new(*Visit[int]), 1, everyPosition, 1)
		}, 1, false},
		"signalled": {func(w *Watchers[int], _ *machine.Machine) {
			w.Ask(w.at(1, everyPosition), false)
		}, 0, false},
	} {
		w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Now: start, Shards: 1})
		wait(t, w, 2)
		before := wait(t, w, 1) // the key, and its list, were used before
		visit(w, 1, everyPosition, 8)
		end(w, 1, before)
		m, other := waitAt(t, w, 1, 9), waitAt(t, w, 1, 20)
		_, last := w.LastExpiries()
		assert.Empty(t, last)
		c.do(w, m)
		m.SetStart(time.Second)
		m.Entry().At = int64(time.Minute)
		_, unchecked := w.Leave(ending(m, machine.Expired))
		assert.Equal(t, c.unchecked, unchecked, name)
		m.Settle(nil)
		want := Seen[int]{1, reflect.TypeFor[*waiter](), time.Minute, 59 * time.Second, c.checks}
		last, none := w.LastExpiries()
		if c.unchecked {
			last, none = none, last
		}
		assert.Equal(t, want, last[0], name)
		assert.Nil(t, none[0].Kind)
		_, unchecked = w.Leave(ending(other, machine.Forced))
		assert.False(t, unchecked, "it has not expired")
		sum := totals(w)
		assert.Equal(t, c.unchecked, sum.Unchecked == 1, name)
		assert.Equal(t, ended{machine.Satisfied: 1, machine.Expired: 1, machine.Forced: 1}, sum.Ended, name)
	}
}

// How long operations waited is counted by outcome, once for each, whatever its keys are.
func TestHowLongOperationsWaitedIsCounted(t *testing.T) {
	var now time.Duration
	w := New(Config[int]{Closed: new(sched.Bool), Kick: func() {}, Shards: 8, Waited: true, Now: func() time.Duration { return now }})
	a, b := twoKeys(w)
	first := wait(t, w, a, b)
	first.SetStart(time.Second)
	require.True(t, pass(w.shard(w.Hash(a))), "one that does not wait")
	w.Early(w.Hash(b), machine.Satisfied)
	now = 4 * time.Second
	end(w, b, first)
	var waited [machine.NumOutcomes]struct{ n, s float64 }
	sum := totals(w)
	for o := range sum.Waited {
		waited[o].n, waited[o].s = float64(sum.Waited[o].Count()), sum.Waited[o].Sum
	}
	assert.Equal(t, [machine.NumOutcomes]struct{ n, s float64 }{machine.Satisfied: {3, 3}}, waited)
	assert.EqualValues(t, 3, sum.Accepted)
}
