package prometheus

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// native returns what a histogram of one series has as a native one: counts by upper bound, the zero bucket under its
// threshold.
func native(t *testing.T, c prometheus.Collector, name string) (h *dto.Histogram, counts map[float64]int64) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			h = f.GetMetric()[0].GetHistogram()
		}
	}
	require.NotNil(t, h)
	counts = map[float64]int64{h.GetZeroThreshold(): int64(h.GetZeroCount())}
	index, count, deltas := int32(0), int64(0), h.GetPositiveDelta()
	for _, span := range h.GetPositiveSpan() {
		index += span.GetOffset()
		for range span.GetLength() {
			count += deltas[0]
			deltas = deltas[1:]
			counts[math.Exp2(float64(index))] += count
			index++
		}
	}
	assert.Empty(t, deltas)
	return h, counts
}

func TestNativeBucketsStandBesideTheClassicOnes(t *testing.T) {
	n := timed(t)
	want := make(map[float64]int64)
	for i := range n.Late.Counts {
		n.Late.Counts[i] = int64(100 + i*i)
		want[math.Exp2(float64(i-13))] = n.Late.Counts[i] // 125 µs is 2.3 % more than 2^-13 s
	}
	h, counts := native(t, fixed{&Collector{opts: Options{NativeHistograms: true}}, n}, "purgatory_expiry_lateness_seconds")
	assert.Equal(t, want, counts)
	assert.EqualValues(t, 0, h.GetSchema())
	assert.Len(t, h.GetBucket(), purgatory.HistogramBuckets-1)
	for bound := range counts {
		near := math.Inf(1)
		for i := range purgatory.HistogramBuckets - 1 {
			near = min(near, math.Abs(1-bound/n.Late.Bound(i).Seconds()))
		}
		if bound < n.Late.Bound(purgatory.HistogramBuckets-2).Seconds() {
			assert.Less(t, near, 0.024)
		}
	}
}

func TestNativeHistogramsAreAnOption(t *testing.T) {
	h, counts := native(t, fixed{&Collector{}, timed(t)}, "purgatory_expiry_lateness_seconds")
	assert.Nil(t, h.Schema)
	assert.Equal(t, map[float64]int64{0: 0}, counts)
	c, err := NewWithOptions(Options{NativeHistograms: true}, used(t, purgatory.WithHistograms()))
	require.NoError(t, err)
	h, counts = native(t, c, "purgatory_expiry_lateness_seconds")
	assert.EqualValues(t, 1, h.GetSampleCount())
	assert.Equal(t, map[float64]int64{math.Exp2(-13): 1}, counts)
}
