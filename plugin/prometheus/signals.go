package prometheus

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayedop/purgatory/signals"
)

// SignalSource is a source of hints from other processes: a *signals.Runner[K] of any K.
type SignalSource interface {
	Stats() signals.Stats
}

// AddSignals collects one more source of hints from the next scrape on. Its name (of
// signals.WithName) tells it apart from others. Errors: ErrName, ErrNilSource.
func (c *Collector) AddSignals(s SignalSource) error {
	if isNil(s) {
		return ErrNilSource
	}
	return add(c, c.mu.signals, s.Stats().Name, s)
}

// RemoveSignals collects the source of hints of this name no longer.
func (c *Collector) RemoveSignals(name string) { remove(c, c.mu.signals, name) }

func signalGauge(name, help string, of func(*signals.Stats) float64) metric[signals.Stats] {
	return metric[signals.Stats]{prometheus.NewDesc("purgatory_"+name, help, []string{"signals"}, nil), prometheus.GaugeValue, of}
}

func signalCounter(name, help string, of func(*signals.Stats) int64) metric[signals.Stats] {
	desc := prometheus.NewDesc("purgatory_"+name, help, []string{"signals"}, nil)
	return metric[signals.Stats]{desc, prometheus.CounterValue, func(n *signals.Stats) float64 { return float64(of(n)) }}
}

var signalMetrics = []metric[signals.Stats]{
	signalGauge("hint_source_running", "1 while the source of hints is run, 0 otherwise.",
		func(n *signals.Stats) float64 { return number(n.Running) }),
	signalGauge("hint_source_standing", "1 while the subscription to the engine stands, 0 otherwise.",
		func(n *signals.Stats) float64 { return number(n.Standing) }),
	signalGauge("hint_source_silence_seconds", "How long ago the source was last heard: a hint, or that the subscription stands.",
		func(n *signals.Stats) float64 { return n.SinceLastWord.Seconds() }),
	signalCounter("hint_source_ends_total", "Times that the source ended; it is run again after a pause.",
		func(n *signals.Stats) int64 { return n.Ends }),
	signalCounter("hint_source_gaps_total", "Gaps in which hints may have been lost; a re-check follows each.",
		func(n *signals.Stats) int64 { return n.Gaps }),
	signalCounter("hints_total", "Hints from other processes.",
		func(n *signals.Stats) int64 { return n.Hints }),
	signalCounter("unawaited_hints_total", "Hints for keys that nobody waited for.",
		func(n *signals.Stats) int64 { return n.Unawaited }),
	signalCounter("repeated_hints_total", "Hints that WithLag has said again.",
		func(n *signals.Stats) int64 { return n.Repeats }),
	signalCounter("rechecks_total", "Times that every key was signalled.",
		func(n *signals.Stats) int64 { return n.Rechecks }),
	signalCounter("audits_total", "Re-checks that only the interval of WithAudit asked for.",
		func(n *signals.Stats) int64 { return n.Audits }),
	signalCounter("bulk_reads_total", "Calls of the function of WithResync.",
		func(n *signals.Stats) int64 { return n.BulkReads }),
	signalCounter("failed_bulk_reads_total", "Calls of the function of WithResync that failed, or did not return in time.",
		func(n *signals.Stats) int64 { return n.Failures }),
	signalGauge("bulk_read_seconds", "How long the call of the function of WithResync that is in progress has been running; 0: there is none.",
		func(n *signals.Stats) float64 { return n.Reading.Seconds() }),
	signalGauge("hint_read_lag_seconds", "The longest time after a hint at which a read was still behind it, as Runner.Saw was told.",
		func(n *signals.Stats) float64 { return n.Lag.Seconds() }),
	signalGauge("hint_read_lag_allowed_seconds", "The option WithLag: waits whose reads lag longer are ended by audits.",
		func(n *signals.Stats) float64 { return n.LagAllowed.Seconds() }),
	signalGauge("hint_queue_used_ratio", "How full the queue is in which the engine keeps hints for its subscribers; absent if the source does not say.",
		func(n *signals.Stats) float64 {
			if n.QueueUsed < 0 {
				return math.NaN()
			}
			return n.QueueUsed
		}),
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
