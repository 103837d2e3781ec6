package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayedop/purgatory/watermark"
)

// WatermarkSource is a *watermark.Watermark[K] of any K.
type WatermarkSource interface {
	Stats() watermark.Stats
}

// AddWatermark collects one more watermark from the next scrape on, under a name that tells it apart from others. Errors:
// ErrName, ErrNilSource.
func (c *Collector) AddWatermark(name string, s WatermarkSource) error {
	if isNil(s) {
		return ErrNilSource
	}
	return add(c, c.mu.watermarks, name, s)
}

// RemoveWatermark collects the watermark of this name no longer.
func (c *Collector) RemoveWatermark(name string) { remove(c, c.mu.watermarks, name) }

func watermarkMetric(name, help string, kind prometheus.ValueType, of func(*watermark.Stats) float64) metric[watermark.Stats] {
	return metric[watermark.Stats]{prometheus.NewDesc("purgatory_watermark_"+name, help, []string{"watermark"}, nil), kind, of}
}

var watermarkMetrics = []metric[watermark.Stats]{
	watermarkMetric("waiting", "Waits for a position.", prometheus.GaugeValue,
		func(n *watermark.Stats) float64 { return float64(n.Waiting) }),
	watermarkMetric("oldest_wait_seconds", "How long the wait that has lasted longest has lasted.", prometheus.GaugeValue,
		func(n *watermark.Stats) float64 { return n.Oldest.Seconds() }),
	watermarkMetric("timeouts_expected", "1 if WithTimeoutsExpected of the purgatory says that it is normal that waits expire, 0 otherwise.", prometheus.GaugeValue,
		func(n *watermark.Stats) float64 { return number(n.TimeoutsExpected) }),
	watermarkMetric("served_total", "Waits that have got their position.", prometheus.CounterValue,
		func(n *watermark.Stats) float64 { return float64(n.Served) }),
	watermarkMetric("given_up_total", "Waits that were given up: their contexts ended, or Stop was called.", prometheus.CounterValue,
		func(n *watermark.Stats) float64 { return float64(n.Left) }),
	watermarkMetric("expired_total", "Waits that ended by their timeouts.", prometheus.CounterValue,
		func(n *watermark.Stats) float64 { return float64(n.Expired) }),
	watermarkMetric("cancelled_total", "Waits that were ended by Close, CancelForKey, or the end of the purgatory.", prometheus.CounterValue,
		func(n *watermark.Stats) float64 { return float64(n.Cancelled) }),
	watermarkMetric("refused_total", "Waits that the purgatory, or its timer, refused.", prometheus.CounterValue,
		func(n *watermark.Stats) float64 { return float64(n.Refused) }),
}
