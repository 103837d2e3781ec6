package prometheus

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// native returns what the histogram of the waits with that outcome has as a native one: counts by upper bound, the zero bucket under its
// threshold.
func native(t *testing.T, c prometheus.Collector, outcome string) (h *dto.Histogram, counts map[float64]int64) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "purgatory_wait_seconds" && m.GetLabel()[0].GetValue() == outcome {
				h = m.GetHistogram()
			}
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
	n := timed()
	h := &n.Waited[operation.Satisfied]
	want := make(map[float64]int64)
	for i := range h.Counts {
		h.Counts[i] = int64(100 + i*i)
		want[math.Exp2(float64(i-10))] = h.Counts[i] // 1 ms is 2.4 % more than 2^-10 s
	}
	c, err := NewWithOptions(Options{NativeHistograms: true}, fixed(*n))
	require.NoError(t, err)
	got, counts := native(t, c, "satisfied")
	assert.Equal(t, want, counts)
	assert.EqualValues(t, 0, got.GetSchema())
	assert.Len(t, got.GetBucket(), len(purgatory.Histogram{}.Counts)-1)
	for i := range len(purgatory.Histogram{}.Counts) - 1 {
		assert.InEpsilon(t, h.Bound(i).Seconds(), math.Exp2(float64(i-10)), 0.025)
	}
}

func TestNativeHistogramsAreAnOption(t *testing.T) {
	c, err := New(fixed(*timed()))
	require.NoError(t, err)
	h, counts := native(t, c, "satisfied")
	assert.Nil(t, h.Schema)
	assert.Equal(t, map[float64]int64{0: 0}, counts)
	c, err = NewWithOptions(Options{NativeHistograms: true}, used(t, purgatory.WithDiagnostics()))
	require.NoError(t, err)
	h, counts = native(t, c, "satisfied")
	assert.EqualValues(t, 1, h.GetSampleCount())
	assert.Equal(t, map[float64]int64{math.Exp2(-10): 0, math.Exp2(-8): 1}, counts, "3 ms are up to 4 ms")
}
