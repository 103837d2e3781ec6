package watchers

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/internal/machine"
)

// A map that is sealed or closed refuses in every shard, also in those that are used for the first
// time afterwards.
func TestAMapIsSealedAndClosedInEveryShard(t *testing.T) {
	const shards = 8
	type accepts struct{ first, further, pass bool }
	for name, c := range map[string]struct {
		change func(w *Watchers[int])
		want   accepts
	}{
		"open":   {func(*Watchers[int]) {}, accepts{true, true, true}},
		"sealed": {(*Watchers[int]).Seal, accepts{further: true}},
		"closed": {(*Watchers[int]).Close, accepts{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := New(Config[int]{Shards: shards})
			machines := make([]*machine.Machine, shards)
			for i := range machines {
				op := &waiter{}
				(&machine.Hold{Op: op}).Begin(2, 1)
				machines[i] = machine.Of(op)
			}
			for i := range uint64(shards / 2) { // the others are made later
				w.Shard(i).Watch(machines[i], 0, &Wait[int]{int(i), AnyPosition, i})
			}
			c.change(w)
			for i := range uint64(shards) {
				s, m, wait := w.Shard(i), machines[i], &Wait[int]{int(i), AnyPosition, i}
				var got accepts
				if i >= shards/2 {
					got.first = s.Watch(m, 0, wait)
				} else {
					op := &waiter{}
					(&machine.Hold{Op: op}).Begin(1, 1)
					got.first = s.Watch(machine.Of(op), 0, wait)
				}
				got.further, got.pass = s.Watch(m, 1, wait), s.Pass(machine.Satisfied)
				assert.Equal(t, c.want, got, "shard %d", i)
			}
		})
	}
}

// A sealed shard accepts no operation, but it takes the further keys of an operation that was
// accepted before. A closed shard takes nothing.
func TestASealedShardTakesOnlyFurtherKeys(t *testing.T) {
	w := New[int](Config[int]{Shards: 1})
	s := w.Shard(0)
	wait := func(key int) *Wait[int] { return &Wait[int]{key, AnyPosition, w.Hash(key)} }
	var all [2]*machine.Machine
	for i := range all {
		op := &waiter{}
		(&machine.Hold{Op: op}).Begin(3, 1)
		all[i] = machine.Of(op)
	}
	accepted, late := all[0], all[1]
	assert.True(t, s.Watch(accepted, 0, wait(1)))
	s.seal()
	assert.False(t, s.Watch(late, 0, wait(1)))
	assert.False(t, s.Pass(machine.Satisfied))
	assert.True(t, s.Watch(accepted, 1, wait(2)))
	s.Close()
	assert.False(t, s.Watch(accepted, 2, wait(3)))
	assert.False(t, s.Watch(late, 0, wait(1)))
	assert.False(t, s.Pass(machine.Satisfied))
	var total Totals
	s.Totals(&total)
	assert.EqualValues(t, 1, total.Accepted)
	assert.Equal(t, 2, total.Watched)

	var found []*machine.Machine
	keys, _, more := s.someKeys(0, 100, nil)
	assert.False(t, more)
	for _, k := range keys {
		found = append(found, visit(s, k, 1)...)
	}
	assert.Equal(t, []*machine.Machine{accepted, accepted}, found, "under each of its keys")
}
