package purgatory

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/watchers"
)

// The documentation shows these as numbers. They are those of the packages that use them.
func TestConstantsHaveTheValuesThatAreUsed(t *testing.T) {
	assert.Equal(t, AnyPosition, int64(watchers.AnyPosition))
	assert.Equal(t, EveryPosition, int64(watchers.EveryPosition))
	assert.Len(t, Histogram{}.Counts, HistogramBuckets)
	assert.Equal(t, machine.MaxKeys, operation.MaxKeys)
}
