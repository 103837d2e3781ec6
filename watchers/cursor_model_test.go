package watchers

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/internal/machine"
)

func TestWalksBesideEachOther(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := New(Config[int]{Shards: 1})
		s := w.Shard(0)
		h := w.Hash(1)
		type op struct {
			m    *machine.Machine
			pos  int64
			born int
		}
		var live []op
		clock := 0
		type walk struct {
			c       *Cursor[int]
			upTo    int64
			began   int
			must    map[*machine.Machine]bool
			seen    map[*machine.Machine]bool
			last    op
			out     []*machine.Machine
			atBegin []op
		}
		var walks []*walk
		info := map[*machine.Machine]op{}
		visit := func(k *walk, ms []*machine.Machine) {
			for _, m := range ms {
				o := info[m]
				require.False(t, k.seen[m], "twice, seed %d", seed)
				require.LessOrEqual(t, o.pos, k.upTo)
				require.LessOrEqual(t, k.last.pos, o.pos)
				if k.last.m != nil && k.last.pos == o.pos {
					require.Less(t, k.last.born, o.born)
				}
				k.last = o
				k.seen[m] = true
			}
		}
		finish := func(k *walk) {
			for _, o := range live {
				if k.must[o.m] {
					require.True(t, k.seen[o.m], "missed, seed %d pos %d", seed, o.pos)
				}
			}
		}
		anyOnly := r.IntN(3) == 0
		for range 300 {
			switch r.IntN(7) {
			case 0, 1, 2:
				pos := int64(AnyPosition)
				if !anyOnly && r.IntN(2) == 0 {
					pos = int64(r.IntN(12))
				}
				for range 1 + r.IntN(60)/20 {
					clock++
					o := op{waitAt(t, w, 1, pos), pos, clock}
					info[o.m] = o
					live = append(live, o)
				}
			case 3:
				for range r.IntN(8) {
					if len(live) == 0 {
						break
					}
					i := r.IntN(len(live))
					o := live[i]
					live = append(live[:i], live[i+1:]...)
					s.Leave([]*machine.Machine{o.m}, []machine.Outcome{machine.Satisfied}, make([]int, 1))
				}
			case 4:
				if len(walks) < 4 {
					k := &walk{c: &Cursor[int]{}, upTo: int64(r.IntN(14)), must: map[*machine.Machine]bool{}, seen: map[*machine.Machine]bool{}, out: make([]*machine.Machine, 1+r.IntN(4))}
					k.last.pos = AnyPosition
					if r.IntN(4) == 0 {
						k.upTo = EveryPosition
					}
					if r.IntN(8) == 0 {
						k.upTo = AnyPosition
					}
					for _, o := range live {
						if o.pos <= k.upTo {
							k.must[o.m] = true
						}
					}
					n, more := s.Begin(k.c, 1, h, k.upTo, k.out)
					visit(k, k.out[:n])
					if more {
						walks = append(walks, k)
					} else {
						finish(k)
					}
				}
			default:
				if len(walks) == 0 {
					continue
				}
				i := r.IntN(len(walks))
				k := walks[i]
				if r.IntN(12) == 0 {
					k.c.Stop()
					walks = append(walks[:i], walks[i+1:]...)
					continue
				}
				n, more := k.c.Next(k.out)
				visit(k, k.out[:n])
				if !more {
					finish(k)
					walks = append(walks[:i], walks[i+1:]...)
				}
			}
		}
		for _, k := range walks {
			k.c.Stop()
		}
		for _, o := range live {
			s.Leave([]*machine.Machine{o.m}, []machine.Outcome{machine.Satisfied}, make([]int, 1))
		}
		require.EqualValues(t, 0, s.mu.keys.len)
		require.EqualValues(t, 0, s.mu.watched)
	}
}
