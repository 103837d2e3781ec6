package purgatory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/watchers"
)

// The pool lives as long as the purgatory: what it holds must not keep keys in memory.
func TestThePoolOfKeysHoldsNone(t *testing.T) {
	p := newManual(t)
	keys := []string{"a", "b", "c", "d", "e", "f"}
	_, err := p.TryCompleteElseWatch(&panics{}, time.Second, keys...)
	require.NoError(t, err)
	pooled, ok := p.manyKeys.Get().(*[]watchers.Wait[string])
	if !ok {
		t.Skip("the race detector makes a sync.Pool drop items")
	}
	many := *pooled
	require.NotZero(t, cap(many))
	for _, w := range many[:cap(many)] {
		assert.Zero(t, w)
	}
}
