package operation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type plain struct{ DelayedOperation }

func (*plain) TryComplete() bool { return false }
func (*plain) OnComplete()       {}
func (*plain) OnExpiration()     {}

func TestAnUnlinkedWatchRefersToNobody(t *testing.T) {
	var l List
	l.Init(nil)
	var machines [3]*Machine
	for i := range machines {
		op := &plain{}
		machines[i] = Of(op)
		require.True(t, machines[i].Begin(op, 1))
		l.Link(machines[i], 0, int64(i), l.Last())
	}
	w := machines[1].First()
	w.Unlink()
	assert.Nil(t, w.next)
	assert.Nil(t, w.prev)
	assert.Nil(t, w.list)
	assert.Equal(t, 2, l.Len())
	assert.Same(t, machines[2].First(), l.Next(l.First()))
	assert.Same(t, machines[0].First(), l.Prev(l.Last()))
}

func TestAnEndedOperationKeepsOnlyItsOutcome(t *testing.T) {
	var l List
	l.Init(nil)
	op := &plain{}
	m := Of(op)
	require.True(t, m.Begin(op, 3))
	for i := range 3 {
		l.Link(m, i, 0, nil)
	}
	require.Equal(t, 3, m.Keys())
	for w := range m.Watches() {
		w.Unlink()
	}
	m.Settle(Forced, nil)
	assert.Nil(t, m.tail, "the watches of the other keys")
	assert.Equal(t, Forced, op.Outcome())
	assert.NoError(t, op.Cause())
	assert.Equal(t, Over, m.Acquire())
	assert.False(t, m.Begin(op, 1), "it is used once")
}

func TestARejectedOperationKeepsNoWatches(t *testing.T) {
	var l List
	l.Init(nil)
	op := &plain{}
	m := Of(op)
	require.True(t, m.Begin(op, 3))
	l.Link(m, 0, 0, nil)
	l.Link(m, 1, 0, nil)
	require.Len(t, m.Extra(), 2)
	for w := range m.Watches() {
		if w.List() != nil {
			w.Unlink()
		}
	}
	m.Reject(true)
	assert.Nil(t, m.tail)
	assert.False(t, m.Begin(op, 1), "it is spent")
}

func TestAnOperationThatWaitsForManyKeysHasNoCause(t *testing.T) {
	var l List
	l.Init(nil)
	op := &plain{}
	m := Of(op)
	require.True(t, m.Begin(op, 2))
	l.Link(m, 0, 0, nil)
	l.Link(m, 1, 0, nil)
	assert.NoError(t, op.Cause(), "one pointer serves for the other watches and for the cause")
	assert.Equal(t, "Outcome(6)", Outcome(Outcomes).String(), "the first that there is not")
}
