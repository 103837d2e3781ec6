package bounded

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/internal/sched"
)

func TestIncrementStopsAtTheLimit(t *testing.T) {
	var n sched.Int64
	assert.False(t, Increment(&n, 0))
	assert.True(t, Increment(&n, 2))
	assert.True(t, Increment(&n, 2))
	assert.False(t, Increment(&n, 2))
	assert.False(t, Increment(&n, 1), "beyond the limit")
	assert.EqualValues(t, 2, n.Load())
}

// Of many goroutines as many succeed as there is room, even if others give their place back.
func TestIncrementOfManyGoroutines(t *testing.T) {
	const limit = 3
	var n, most sched.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 10_000 {
				if Increment(&n, limit) {
					for now := n.Load(); ; {
						old := most.Load()
						if now <= old || most.CompareAndSwap(old, now) {
							break
						}
					}
					n.Add(-1)
				}
			}
		})
	}
	all.Wait()
	assert.Zero(t, n.Load())
	assert.LessOrEqual(t, most.Load(), int64(limit))
	assert.Positive(t, most.Load())
}
