package identity

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestIdentitiesDiffer(t *testing.T) {
	var mu sync.Mutex
	seen := map[uint32]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				id := New()
				mu.Lock()
				assert.False(t, seen[id], "%d twice", id)
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	assert.Len(t, seen, 800)
	assert.False(t, seen[0])
}

func TestIdentitiesWrapAroundWithoutZero(t *testing.T) {
	before := last.Load()
	defer last.Store(before)
	last.Store(1<<Bits - 3)
	assert.EqualValues(t, 1<<Bits-1, New())
	assert.EqualValues(t, 1, New(), "0 is nobody's")
}
