package purgatory_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

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


// Await takes its turn, too.
func TestAnAwaitDoesNotOvertake(t *testing.T) {
	p := onManualClock[int](t, purgatory.WithFirstInFirstOut())
	s := &store{items: make([]int, 1)}
	first := &taker{from: s, kinds: []int{0}}
	submit(t, p, first, hour, 0)
	s.add(0, 1) // its check is still to come
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Await(ctx, hour, func() bool { return s.take([]int{0}) }, 0) })
	assert.True(t, inTime(func() bool { return p.NumDelayed() == 2 || first.Outcome() != operation.Pending }))
	assert.Equal(t, operation.Satisfied, first.Outcome(), "the newcomer's registration tries those before it")
	cancel()
	wg.Wait()
}
