package watchers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
)

func TestSignalsOfAKeyCoalesceUntilItIsTaken(t *testing.T) {
	w := newMap(0)
	m := wait(t, w, 1)
	h := w.Hash(1)
	s := w.Shard(h)
	var c Cursor[int]
	out := make([]*operation.Machine, 4)

	assert.True(t, s.Signal(1, h, Everything), "somebody has to take it")
	assert.False(t, s.Signal(1, h, Everything), "marked already")
	assert.True(t, w.Signalled())
	of, n, more := w.TakeSignal(0, &c, out)
	assert.Same(t, s, of)
	assert.Equal(t, 1, n)
	assert.False(t, more)
	assert.Same(t, m, out[0])
	assert.False(t, w.Signalled())

	// The check of what was taken may still be under way: this is a new one.
	assert.True(t, s.Signal(1, h, Everything))
	_, n, _ = w.TakeSignal(0, &c, out)
	assert.Equal(t, 1, n)
	assert.EqualValues(t, 3, s.Checks.Signals.Load())
	assert.EqualValues(t, 1, s.Checks.Coalesced.Load())
}

func TestCoalescedSignalsReachTheHighestPosition(t *testing.T) {
	w := newMap(0)
	h := w.Hash(1)
	s := w.Shard(h)
	var ops []*operation.Machine
	for position := range int64(3) {
		op := &waiter{}
		m := operation.Of(op)
		require.True(t, m.Begin(op, 1))
		require.True(t, s.Watch(m, 0, 1, h, position))
		ops = append(ops, m)
	}
	var c Cursor[int]
	out := make([]*operation.Machine, 8)
	for _, upTo := range []int64{0, 1, 0} {
		s.Signal(1, h, upTo)
	}
	_, n, more := w.TakeSignal(0, &c, out)
	assert.False(t, more)
	assert.Equal(t, ops[:2], out[:n], "at and below position 1")
}

func TestASignalForNobodyIsForgotten(t *testing.T) {
	w := newMap(0)
	h := w.Hash(1)
	s := w.Shard(h)
	assert.False(t, s.Signal(1, h, Everything))
	m := wait(t, w, 1)
	assert.True(t, s.Signal(1, h, Everything))
	end(w, 1, m) // the key is forgotten with the mark on it
	again := wait(t, w, 1)
	assert.True(t, s.Signal(1, h, Everything), "the key is another one now")
	var c Cursor[int]
	out := make([]*operation.Machine, 8)
	_, n, more := w.TakeSignal(0, &c, out)
	assert.Zero(t, n, "of the forgotten one")
	assert.False(t, more)
	checkInvariants(t, w)
	_, n, _ = w.TakeSignal(0, &c, out)
	assert.Equal(t, 1, n)
	assert.Same(t, again, out[0])
	of, _, _ := w.TakeSignal(0, &c, out)
	assert.Nil(t, of)
	n, more = s.takeSignal(&c, out)
	assert.Zero(t, n, "another worker was faster")
	assert.False(t, more)
}

func TestASignalledKeyThatSomebodyWalksOverIsNotGivenAway(t *testing.T) {
	w := newMap(0)
	h := w.Hash(1)
	s := w.Shard(h)
	ops := []*operation.Machine{wait(t, w, 1), wait(t, w, 1), wait(t, w, 1)}
	var walk, c Cursor[int]
	out := make([]*operation.Machine, 2)
	_, more := s.Begin(&walk, 1, h, Everything, out)
	require.True(t, more)
	require.True(t, s.Signal(1, h, Everything))
	end(w, 1, ops...)
	_, n, more := w.TakeSignal(0, &c, out)
	assert.Zero(t, n)
	assert.False(t, more)
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
		m := operation.Of(op)
		require.True(t, m.Begin(op, 1))
		require.True(t, s.Watch(m, 0, 1, h, position))
	}
	var c Cursor[int]
	out := make([]*operation.Machine, 2) // so few at a time that it needs markers
	reached := 0
	for n, more := s.Begin(&c, 1, h, 9, out); ; n, more = c.Next(out) {
		reached += n
		if !more {
			break
		}
	}
	assert.Equal(t, 10, reached, "0 to 9")
}
