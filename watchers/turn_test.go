package watchers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// Walks in order over a key take turns. A walk that comes during another's turn gets nothing, and
// the other one is told at its end, once.
func TestWalksInOrderTakeTurns(t *testing.T) {
	w := newMap(0)
	hash := w.Hash(1)
	s := w.Shard(hash)
	out := make([]*machine.Machine, 2)
	begin := func(c *Cursor[int], key int) (n int, more, ok bool) { return s.BeginTurn(c, key, hash, out) }
	refused := func(key int) {
		t.Helper()
		n, more, ok := begin(new(Cursor[int]), key)
		assert.Equal(t, []any{0, false, false}, []any{n, more, ok})
		require.True(t, s.mu.TryLock(), "it releases the lock")
		s.unlock()
	}
	refused(1)
	all := []*machine.Machine{wait(t, w, 1), waitAt(t, w, 1, 5), waitAt(t, w, 1, 7)}
	var c Cursor[int]
	for _, size := range []int{1, 2, 3} {
		out = make([]*machine.Machine, size)
		for _, others := range []int{0, 1, 2, 0} {
			n, more, ok := begin(&c, 1)
			require.True(t, ok)
			require.Equal(t, []any{size, size < 3}, []any{n, more})
			assert.Equal(t, all[:size], out)
			for range others {
				refused(1)
			}
			require.Equal(t, others > 0, c.EndTurn(), "a turn of %d, in which %d others came", size, others)
			require.True(t, s.mu.TryLock(), "it releases the lock")
			s.unlock()
			checkInvariants(t, w) // no marker is left
		}
	}
	end(w, 1, all...)
	refused(1)
	checkInvariants(t, w)
}

// Only an operation at which a line stands, and which takes nothing, leaves a signal: one, in order. Nobody has called
// Signal.
func TestOnlyALeaverAtWhichALineStandsIsSignalled(t *testing.T) {
	for i := range 2 * 2 * 3 {
		line, stopped, o := i&1 != 0, i&2 != 0, []machine.Outcome{machine.Satisfied, machine.Forced, machine.Expired}[i/4]
		kicks := 0
		w := New(Config[int]{Kick: func() { kicks++ }, Shards: 1})
		s, hash := w.Shard(0), w.Hash(1)
		m, behind := wait(t, w, 1), wait(t, w, 1)
		if line {
			var c Cursor[int]
			_, _, ok := s.BeginTurn(&c, 1, hash, make([]*machine.Machine, 2))
			require.True(t, ok)
			require.False(t, c.EndTurn())
		}
		if stopped {
			m.SetStopped()
		}
		s.Leave([]*machine.Machine{m}, []machine.Outcome{o}, make([]int, 1))
		want, signalled := 0, Signalled[int]{}
		if line && stopped && o != machine.Satisfied {
			want, signalled = 1, Signalled[int]{1, hash, EveryPosition, true}
		}
		got, ok := w.TakeSignal(0)
		assert.Equal(t, []any{want, want == 1, signalled}, []any{kicks, ok, got}, "in line %v, stopped %v, %v", line, stopped, o)
		assert.Zero(t, s.mu.signals.made)
		end(w, 1, behind)
		assert.Equal(t, want, kicks)
	}
}

// A turn may go on with Next until it has visited everything.
func TestATurnVisitsAllThatWait(t *testing.T) {
	w := newMap(0)
	s, hash := w.Shard(w.Hash(1)), w.Hash(1)
	var all []*machine.Machine
	for range 3 {
		all = append(all, wait(t, w, 1))
	}
	for position := range int64(3) {
		all = append(all, waitAt(t, w, 1, position))
	}
	var c Cursor[int]
	out := make([]*machine.Machine, 2)
	n, more, _ := s.BeginTurn(&c, 1, hash, out)
	visited := append([]*machine.Machine(nil), out[:n]...)
	for more {
		n, more = c.Next(out)
		visited = append(visited, out[:n]...)
	}
	assert.Equal(t, all, visited)
	assert.False(t, c.EndTurn())
	checkInvariants(t, w)
}

// A key stays in the map during a turn, whatever ends meanwhile, and leaves the map with it.
func TestAKeyStaysDuringATurn(t *testing.T) {
	for _, size := range []int{1, 2} { // with and without a walk that goes on
		w := newMap(0)
		s, hash := w.Shard(w.Hash(7)), w.Hash(7)
		all := []*machine.Machine{wait(t, w, 7), wait(t, w, 7)}
		var c Cursor[int]
		_, _, ok := s.BeginTurn(&c, 7, hash, make([]*machine.Machine, size))
		require.True(t, ok)
		end(w, 7, all...)
		_, keys := watched(w)
		assert.Equal(t, 1, keys)
		_, _, ok = s.BeginTurn(new(Cursor[int]), 7, hash, make([]*machine.Machine, 1))
		assert.False(t, ok, "the turn goes on")
		assert.True(t, c.EndTurn())
		_, keys = watched(w)
		assert.Zero(t, keys)
		checkInvariants(t, w)
		last := wait(t, w, 7)
		_, _, ok = s.BeginTurn(&c, 7, hash, make([]*machine.Machine, 1))
		assert.True(t, ok, "the next waiter's turn is a new one")
		assert.False(t, c.EndTurn())
		end(w, 7, last)
		checkInvariants(t, w)
	}
}

// A walk in which operations keep arriving below its position becomes overdue, and any other does
// not.
func TestAWalkThatOthersKeepFeedingIsOverdue(t *testing.T) {
	const waiting = 10
	w := newMap(0)
	s, hash := w.Shard(w.Hash(1)), w.Hash(1)
	for range waiting - 1 {
		waitAt(t, w, 1, 3)
	}
	waitAt(t, w, 1, 100) // beyond the position, so that no marker ends the walk
	out := make([]*machine.Machine, 1)
	for name, feed := range map[string]bool{"fed": true, "not fed": false} {
		t.Run(name, func(t *testing.T) {
			var c Cursor[int]
			visited, more := s.Begin(&c, 1, hash, 50, out)
			for more && !c.Overdue() && visited < 10*waiting {
				if feed {
					waitAt(t, w, 1, 20)
				}
				var n int
				n, more = c.Next(out)
				visited += n
			}
			assert.Equal(t, feed, c.Overdue())
			if feed {
				assert.InDelta(t, 2*waiting, visited, 1)
				c.Stop()
			} else {
				assert.False(t, more)
			}
			checkInvariants(t, w)
		})
	}
}
