package stats

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestHistogramQuantiles(t *testing.T) {
	h := Histogram{}
	assert.Zero(t, h.Quantile(0.5))
	h.Counts[0], h.Counts[3], h.Counts[NumBuckets-1] = 50, 49, 1
	assert.Equal(t, time.Millisecond, h.Quantile(0.5))
	assert.Equal(t, 8*time.Millisecond, h.Quantile(0.505), "the rank is rounded up")
	assert.Equal(t, 8*time.Millisecond, h.Quantile(0.51))
	assert.Equal(t, 8*time.Millisecond, h.Quantile(0.99))
	assert.Equal(t, h.Bound(NumBuckets-1), h.Quantile(1))
	few := Histogram{}
	few.Counts[0], few.Counts[1], few.Counts[2] = 1, 1, 1
	for q, want := range map[float64]time.Duration{0: 1, 0.33: 1, 0.34: 2, 0.5: 2, 0.66: 2, 0.67: 4, 1: 4} { // the rank of 0.5 is 1.5, and so the second
		assert.Equal(t, want*time.Millisecond, few.Quantile(q), "%v", q)
	}
	late := Histogram{} // nothing in the first buckets
	late.Counts[2], late.Counts[4] = 1, 2
	for q, want := range map[float64]time.Duration{0: 4, 0.33: 4, 0.34: 16, 1: 16} {
		assert.Equal(t, want*time.Millisecond, late.Quantile(q), "%v", q)
	}
	twice := h
	twice.AddAll(&h)
	assert.Equal(t, []any{2 * h.Count(), 2 * h.Sum}, []any{twice.Count(), twice.Sum})
	assert.Equal(t, time.Millisecond<<(NumBuckets-2), h.Bound(NumBuckets-2))
	assert.EqualValues(t, int64(math.MaxInt64), h.Bound(NumBuckets-1))
}

// A bucket has the durations up to its bound, and those over the bound before.
func TestADurationLiesInTheBucketOfItsBound(t *testing.T) {
	for d, bucket := range map[time.Duration]int{
		-time.Hour: 0, 0: 0, 1: 0, time.Millisecond: 0, time.Millisecond + 1: 1, 2 * time.Millisecond: 1, 2*time.Millisecond + 1: 2,
		4194304 * time.Millisecond: NumBuckets - 2, 4194304*time.Millisecond + 1: NumBuckets - 1, math.MaxInt64: NumBuckets - 1,
	} {
		var h Histogram
		h.Add(d, 3)
		assert.EqualValues(t, 3, h.Counts[bucket], "%v", d)
		assert.EqualValues(t, 3, h.Count())
		assert.InDelta(t, 3*max(d, 0).Seconds(), h.Sum, 1e-3*h.Sum)
		assert.Equal(t, h.Bound(bucket), h.Quantile(0.5))
	}
}
