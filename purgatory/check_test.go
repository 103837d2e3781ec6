package purgatory_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
)

// An operation that waits for several of the keys that are checked is tried once.
func TestACheckOfSeveralKeysEndsAnOperationOnce(t *testing.T) {
	p := onManualClock[string](t)
	both, one := submitted(t, p, "a", "b", "c"), submitted(t, p, "b")
	assert.Zero(t, p.CheckAndComplete("a", "b", "c", "d"))
	assert.EqualValues(t, 3, one.tries.Load())
	assert.Zero(t, p.CheckAndComplete())
	both.try = func() bool { return true }
	one.try = both.try
	assert.Equal(t, 2, p.CheckAndComplete("c", "b"))
	empty(t, p)
}

func TestCancelMatchingEndsOnlyMatchingOperations(t *testing.T) {
	p := onManualClock[string](t)
	mine, other, held := submitted(t, p, "a", "b"), submitted(t, p, "a"), newHeldOp()
	submit(t, p, held, hour, "a")
	proceed := held.holdInCheck(p, "a")
	cancelled := p.CancelMatching("a", errGone, func(o operation.Operation) bool { return o != operation.Operation(other) })
	assert.Equal(t, []operation.Operation{mine}, cancelled)
	ended(t, mine, operation.Cancelled)
	pending(t, other)
	proceed(false)
	ended(t, &held.op, operation.Cancelled)
	assert.Equal(t, errGone, held.Cause())

	var told panics
	q := onManualClock[int](t, told.option())
	for range 300 {
		submitted(t, q, 1)
	}
	n := 0
	assert.Len(t, q.CancelMatching(1, nil, func(operation.Operation) bool {
		if n++; n%3 == 0 {
			panic("of the user's")
		}
		return n%3 == 1
	}), 100)
	assert.Equal(t, 300, n, "asked once for each")
	assert.EqualValues(t, 100, told.n.Load())
	assert.Equal(t, 200, q.NumDelayed())
}
