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
	assert.Equal(t, int64(watchers.AnyPosition), AnyPosition)
	assert.Equal(t, int64(watchers.EveryPosition), EveryPosition)
	assert.Len(t, Histogram{}.Counts, HistogramBuckets)
	assert.Equal(t, machine.MaxKeys, operation.MaxKeys)
}
