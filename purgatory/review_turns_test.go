package purgatory_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Walks in order take turns.

// slowTaker is a taker whose TryComplete, when the test says so, returns late.
type slowTaker struct {
	taker
	late *gate // entered when TryComplete has found nothing
}

func (t *slowTaker) TryComplete() bool {
	took := t.taker.TryComplete()
	if g := t.late; g != nil && !took {
		t.late = nil
		g.pass()
	}
	return took
}

// One goroutine checks. A newcomer registers and tries the first in line; the item and its check
// come while that try returns. The first in line gets the item all the same.
func TestARegistrationLetsNobodyOvertakeTheFirstInLine(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithFirstInFirstOut())
	s := &store{items: make([]int, 1)}
	first := &slowTaker{taker: taker{from: s, kinds: []int{0}}}
	submit(t, p, first, hour, 0)
	g := newGate()
	first.late = g
	second := &taker{from: s, kinds: []int{0}}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = p.TryCompleteElseWatch(second, hour, 0) })
	<-g.entered
	s.add(0, 1)
	p.CheckAndCompleteInOrder(0)
	close(g.leave)
	wg.Wait()
	require.True(t, inTime(func() bool { return first.Outcome() == operation.Satisfied })) // by a worker
	assert.Equal(t, operation.Pending, second.Outcome())
}
