package machine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// linked returns operations for these positions, in their order in l.
func linked(l *List, positions ...int64) (machines []*Machine) {
	for _, at := range positions {
		m := begun()
		l.Link(m.First(), m, at, l.Last())
		machines = append(machines, m)
	}
	return machines
}

func TestAnUnlinkedWatchRefersToNothing(t *testing.T) {
	var l List
	l.Init(nil)
	machines := linked(&l, 0, 1, 2)
	w := machines[1].First()
	assert.EqualValues(t, 1, w.Position)
	w.Unlink()
	assert.True(t, w.next == nil && w.Prev == nil && w.List == nil)
	assert.Equal(t, 2, l.Len())
	assert.Same(t, machines[2].First(), l.Next(l.First()))
	assert.Same(t, machines[0].First(), l.Last().Prev)
}

// A cursor goes over the operations of a list up to a position, past marks, while elements come and go anywhere.
func TestACursorAgainstAModel(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		var l List
		l.Init(nil)
		type element struct {
			*Watch
			m *Machine
		}
		var want []element
		at := -1 // the index in want of the element that comes next; -1: before a walk
		upTo := int64(4)
		for range 60 {
			switch i := random.IntN(len(want) + 1); random.IntN(4) {
			case 0: // one comes, or a mark
				e, after, position := element{Watch: new(Watch)}, &l.root, int64(0)
				if random.IntN(4) > 0 {
					e.m = begun()
					e.Watch = e.m.First()
				}
				if i > 0 {
					after = want[i-1].Watch
					position = want[i-1].Position
				}
				if i == len(want) {
					position += random.Int64N(2)
				}
				l.Link(e.Watch, e.m, position, after)
				want = slices.Insert(want, i, e)
				if at >= i { // it stands before the element that comes next
					at++
				}
			case 1: // one leaves
				if i < len(want) {
					want[i].Unlink()
					want = slices.Delete(want, i, i+1)
					if at > i {
						at--
					}
				}
			case 2:
				if random.IntN(4) == 0 {
					l.Start()
					at = 0
				}
			case 3:
				if at < 0 {
					continue
				}
				out := make([]*Machine, 1+random.IntN(3))
				var read []*Machine
				for at < len(want) && len(read) < len(out) && want[at].Position <= upTo {
					if want[at].m != nil {
						read = append(read, want[at].m)
					}
					at++
				}
				n := l.Read(upTo, out)
				require.True(t, slices.Equal(read, out[:n]), "seed %d", seed)
				require.Equal(t, at == len(want) || want[at].Position > upTo, l.AtEnd(upTo))
			}
			var forth, back []*Watch
			n := 0
			for w := l.First(); w != nil; w = l.Next(w) {
				if forth = append(forth, w); w.Machine != nil {
					n++
				}
			}
			for w := l.Last(); w != &l.root; w = w.Prev {
				back = append(back, w)
			}
			slices.Reverse(back)
			require.True(t, slices.Equal(forth, back), "seed %d", seed)
			require.True(t, slices.EqualFunc(want, forth, func(e element, w *Watch) bool { return e.Watch == w && e.m == w.Machine }), "seed %d", seed)
			require.Equal(t, n, l.Len(), "seed %d", seed)
		}
	}
}

func TestTheWatchesOfAnOperation(t *testing.T) {
	m := begun()
	assert.Nil(t, *m.Extra())
	for range 3 {
		x := &Extra{Next: *m.Extra()}
		*m.Extra() = x
		assert.Same(t, x, ExtraOf(&x.Watch))
	}
	assert.NoError(t, m.Cause(), "one pointer serves for the other watches and for the cause")
	*m.Extra() = nil // who ends it empties the chain
	m.Settle(nil)
	assert.Zero(t, m.tail, "it keeps only its outcome")
	assert.Equal(t, Satisfied, m.Outcome())
	assert.False(t, m.Acquire())
}
