package purgatorytest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// taker is an operation whose condition takes an item of a stock.
type taker struct {
	operation.DelayedOperation
	stock    *int
	answered int
}

func (o *taker) TryComplete() bool {
	if *o.stock == 0 {
		return false
	}
	*o.stock--
	return true
}
func (o *taker) OnComplete()   { o.answered++ }
func (o *taker) OnExpiration() {}

// The item that a refused operation has taken is missing, and the test of a server can see that.
func TestARefusedOperationHasTakenItsItem(t *testing.T) {
	stock := 2
	said := record(func(rt testing.TB) {
		p := New[string](rt)
		p.RefuseNext()

		refused := &taker{stock: &stock}
		completed, err := p.TryCompleteElseWatch(refused, time.Second, "items")
		assert.ErrorIs(t, err, purgatory.ErrClosed)
		assert.False(t, completed)
		assert.Equal(t, 1, stock)
		assert.Zero(t, refused.answered)
		assert.False(t, p.Closed())

		next := &taker{stock: &stock}
		completed, err = p.TryCompleteElseWatch(next, time.Second, "items")
		assert.NoError(t, err)
		assert.True(t, completed)
		assert.Equal(t, 1, next.answered)
		assert.Zero(t, stock)
	})
	assert.Empty(t, said)
}

// An operation that waits has taken nothing, and a wait that ends at once always tells its caller: neither is refused.
func TestWhatHasTakenNothingIsNotRefused(t *testing.T) {
	stock := 0
	said := record(func(rt testing.TB) {
		p := New[string](rt)
		p.RefuseNext()
		o := &taker{stock: &stock}
		completed, err := p.TryCompleteElseWatch(o, time.Second, "items")
		assert.NoError(t, err)
		assert.False(t, completed)
		stock = 1
		assert.Equal(t, 1, p.CheckAndComplete("items"))
		assert.NoError(t, p.Await(t.Context(), time.Second, func() bool { return true }, "items"))
	})
	assert.Len(t, said, 1)
	assert.Contains(t, said[0], "1 of RefuseNext are left")
}
