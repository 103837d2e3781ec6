package prometheus

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/delayedop/purgatory/purgatory"
)

func cumulative(h *purgatory.Histogram) (sums [len(purgatory.Histogram{}.Counts)]uint64) {
	var n uint64
	for i, c := range h.Counts {
		n += uint64(c)
		sums[i] = n
	}
	return sums
}

// classic returns h with the buckets that it has, in seconds.
func classic(desc *prometheus.Desc, h *purgatory.Histogram, labels ...string) prometheus.Metric {
	sums := cumulative(h)
	buckets := make(map[float64]uint64, len(purgatory.Histogram{}.Counts)-1)
	for i, n := range sums[:len(purgatory.Histogram{}.Counts)-1] {
		buckets[h.Bound(i).Seconds()] = n
	}
	return prometheus.MustNewConstHistogram(desc, sums[len(purgatory.Histogram{}.Counts)-1], h.Sum, buckets, labels...)
}

// both is a classic histogram that has the buckets of a native one beside its own.
type both struct {
	prometheus.Metric
	native prometheus.Metric
}

// withNative adds native buckets to h's classic ones. The i-th bucket of h ends at twice the bound of the one before,
// and so does that of a native histogram of schema 0; but h's bounds are decimal, 1 ms or 125 µs times a power of two,
// and native ones are powers of two of a second. Each of h's buckets is shown as the native one whose bound is next to its
// own: 2.3 % lower. The first, which begins at 0, is the zero bucket; the last, which has no bound, is the next native one.
func withNative(desc *prometheus.Desc, h *purgatory.Histogram, labels ...string) prometheus.Metric {
	first := int(math.Round(math.Log2(h.Bound(0).Seconds())))
	buckets := make(map[int]int64)
	var n uint64
	for i, c := range h.Counts {
		n += uint64(c)
		if i > 0 && c > 0 {
			buckets[first+i] = c
		}
	}
	native := prometheus.MustNewConstNativeHistogram(desc, n, h.Sum, buckets, nil, uint64(h.Counts[0]), 0, math.Exp2(float64(first)), time.Time{}, labels...)
	return both{classic(desc, h, labels...), native}
}

// Write implements prometheus.Metric.
func (b both) Write(out *dto.Metric) error {
	var native dto.Metric
	if err := b.native.Write(&native); err != nil {
		return err
	}
	if err := b.Metric.Write(out); err != nil {
		return err
	}
	from, to := native.GetHistogram(), out.GetHistogram()
	to.Schema, to.ZeroThreshold, to.ZeroCount = from.Schema, from.ZeroThreshold, from.ZeroCount
	to.PositiveSpan, to.PositiveDelta = from.PositiveSpan, from.PositiveDelta
	return nil
}
