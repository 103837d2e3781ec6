package watchers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

// modelWalk is a walk, and what it must and must not visit.
type modelWalk struct {
	c       *Cursor[int]
	need    map[*machine.Machine]bool // was linked at the beginning
	seen    map[*machine.Machine]bool
	strict  bool // it visits nobody else: no operation has a position
	upTo    int64
	more    bool
	inTurn  bool
	maxLen  int // operations at the beginning
	arrived int // since
}

// Many walks over one list, begun, continued and stopped in any order, while operations come and go anywhere: each visits
// everybody who stays, nobody twice, and the list has no marker that nobody needs.
func TestWalksAgainstAModel(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { playWalks(t, seed) })
	}
}

// playWalks makes 2,000 random steps.
func playWalks(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := newMap(0)
	hash := w.Hash(1)
	s := w.Shard(hash)
	type modelled struct {
		m   *machine.Machine
		pos int64
	}
	var live []modelled
	linked := map[*machine.Machine]bool{}
	var walks []*modelWalk
	mode := rng.IntN(4) // 0: no positions, 1: positions, 2: both, 3: positions descending
	pool := []*Cursor[int]{}
	endBias := rng.IntN(3)
	spread := []int64{3, 50, 100000}[rng.IntN(3)]
	next := int64(1 << 30)
	visit := func(x *modelWalk, out []*machine.Machine) {
		for _, m := range out {
			require.True(t, linked[m], "visited one that has left")
			require.False(t, x.seen[m], "visited twice")
			x.seen[m] = true
			if x.strict {
				require.True(t, x.need[m], "visited one that came later")
			}
			require.LessOrEqual(t, m.First().Position(), x.upTo)
		}
		require.LessOrEqual(t, len(x.seen), x.maxLen+x.arrived, "endless")
	}
	finish := func(x *modelWalk) {
		for m := range x.need {
			if linked[m] {
				require.True(t, x.seen[m], "missed")
			}
		}
		pool = append(pool, x.c)
	}
	for step := range 2000 {
		switch k := rng.IntN(12); {
		case k < 3: // insert
			pos := int64(AnyPosition)
			switch mode {
			case 1:
				pos = rng.Int64N(spread)
			case 2:
				if rng.IntN(2) == 0 {
					pos = rng.Int64N(spread)
				}
			case 3:
				next--
				pos = next
			}
			n := 1 + rng.IntN(4)
			if rng.IntN(100) == 0 {
				n = 300
			}
			for range n {
				m := waitAt(t, w, 1, pos)
				i := len(live)
				for i > 0 && live[i-1].pos > pos {
					i--
				}
				live = slices.Insert(live, i, modelled{m, pos})
				linked[m] = true
				for _, x := range walks {
					x.arrived++
				}
			}
		case k < 6: // end some
			if len(live) == 0 {
				continue
			}
			n := 1 + rng.IntN(4)
			at := 0
			switch rng.IntN(4) {
			case 0:
				at = rng.IntN(len(live))
			case 1:
				at = len(live) - 1
			}
			if endBias == 0 && rng.IntN(30) == 0 {
				at, n = 0, len(live)
			}
			if rng.IntN(20) == 0 {
				n = 200
			}
			n = min(n, len(live)-at)
			for _, o := range live[at : at+n] {
				end(w, 1, o.m)
				delete(linked, o.m)
			}
			live = slices.Delete(live, at, at+n)
		case k < 8: // begin
			if len(walks) > 30 {
				continue
			}
			x := &modelWalk{need: map[*machine.Machine]bool{}, seen: map[*machine.Machine]bool{}, upTo: EveryPosition, maxLen: len(live)}
			if rng.IntN(2) == 0 && mode != 0 {
				x.upTo = rng.Int64N(spread)
				if mode == 3 {
					x.upTo = next + rng.Int64N(100)
				}
			}
			x.strict = mode == 0
			for _, o := range live {
				if o.pos <= x.upTo {
					x.need[o.m] = true
				}
			}
			if len(pool) > 0 && rng.IntN(2) == 0 {
				x.c, pool = pool[len(pool)-1], pool[:len(pool)-1]
			} else {
				x.c = new(Cursor[int])
			}
			out := make([]*machine.Machine, 1+rng.IntN(8))
			var n int
			if rng.IntN(5) == 0 {
				var ok bool
				if n, x.more, ok = s.BeginTurn(x.c, 1, hash, out); !ok {
					pool = append(pool, x.c)
					continue
				}
				for _, o := range live {
					x.need[o.m] = true
				}
				x.upTo, x.inTurn = EveryPosition, true
			} else {
				n, x.more = s.Begin(x.c, 1, hash, x.upTo, out)
			}
			visit(x, out[:n])
			if x.more || x.inTurn {
				walks = append(walks, x)
			} else {
				finish(x)
			}
		default: // go on, or stop
			if len(walks) == 0 {
				continue
			}
			i := rng.IntN(len(walks))
			x := walks[i]
			stop := rng.IntN(12) == 0
			if stop && x.inTurn {
				x.c.EndTurn()
				pool = append(pool, x.c)
			} else if stop {
				x.c.Stop()
				pool = append(pool, x.c)
			} else if x.more {
				out := make([]*machine.Machine, 1+rng.IntN(8))
				var n int
				n, x.more = x.c.Next(out)
				visit(x, out[:n])
			}
			if !stop && !x.more {
				if x.inTurn {
					x.c.EndTurn()
				}
				finish(x)
				stop = true
			}
			if stop {
				walks = slices.Delete(walks, i, i+1)
			}
		}
		if step%20 == 0 {
			checkInvariants(t, w)
			checkMarkers(t, s, hash, len(walks))
			var got []*machine.Machine
			if l := s.mu.keys.find(1, hash); l != nil {
				for a := l.First(); a != nil; a = l.Next(a) {
					if a.Machine() != nil {
						got = append(got, a.Machine())
					}
				}
			}
			require.Len(t, got, len(live))
			for i, o := range live {
				require.Same(t, o.m, got[i])
			}
		}
	}
	for _, x := range walks {
		if x.inTurn {
			x.c.EndTurn()
		} else {
			x.c.Stop()
		}
	}
	checkMarkers(t, s, hash, 0)
	for _, o := range live {
		end(w, 1, o.m)
	}
	checkInvariants(t, w)
	_, keys := watched(w)
	require.Zero(t, keys)
}

// checkMarkers requires that every marker has users, and without walks only those of the index stand.
func checkMarkers(t *testing.T, s *Shard[int], hash uint64, walks int) {
	l := s.mu.keys.find(1, hash)
	if l == nil {
		return
	}
	n, users, own := 0, 0, 0
	for a := l.First(); a != nil; a = l.Next(a) {
		if a.Machine() == nil {
			n++
			require.Positive(t, a.Marker().Users)
			users += a.Marker().Users
		}
	}
	if l.ordered != nil {
		own = 1 + len(l.ordered.index)
	}
	if walks == 0 {
		require.Equal(t, own, n)
		require.Equal(t, own, users)
	}
	require.LessOrEqual(t, users, own+4*walks)
}
