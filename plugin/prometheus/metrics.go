package prometheus

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayedop/purgatory/purgatory"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("purgatory_"+name, help, append([]string{"purgatory"}, labels...), nil)
}

// metric is one number of N, the Stats of a purgatory or of a source of hints.
type metric[N any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*N) float64
}

// collectEach sends the numbers of n, whose label is name. It leaves out what is NaN: nobody has
// measured it.
func collectEach[N any](metrics []metric[N], name string, n *N, out chan<- prometheus.Metric) {
	for _, m := range metrics {
		if value := m.of(n); !math.IsNaN(value) {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, name)
		}
	}
}

func describe[N any](metrics []metric[N], out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
}

func gauge(name, help string, of func(*purgatory.Stats) int64) metric[purgatory.Stats] {
	return metric[purgatory.Stats]{desc(name, help), prometheus.GaugeValue, func(n *purgatory.Stats) float64 { return float64(of(n)) }}
}

func seconds(name, help string, of func(*purgatory.Stats) time.Duration) metric[purgatory.Stats] {
	return metric[purgatory.Stats]{desc(name, help), prometheus.GaugeValue, func(n *purgatory.Stats) float64 { return of(n).Seconds() }}
}

func counter(name, help string, of func(*purgatory.Stats) int64) metric[purgatory.Stats] {
	return metric[purgatory.Stats]{desc(name, help), prometheus.CounterValue, func(n *purgatory.Stats) float64 { return float64(of(n)) }}
}

var metrics = []metric[purgatory.Stats]{
	gauge("pending_operations", "Operations that wait: accepted and not ended.",
		func(n *purgatory.Stats) int64 { return n.Pending }),
	gauge("max_pending_operations", "The bound of WithMaxPending on operations that wait; 0: there is none.",
		func(n *purgatory.Stats) int64 { return n.MaxPending }),
	gauge("watched_entries", "Entries in watcher lists; an operation has one for each of its keys.",
		func(n *purgatory.Stats) int64 { return n.Watched }),
	gauge("keys", "Keys that somebody waits for.",
		func(n *purgatory.Stats) int64 { return n.Keys }),
	gauge("stale_entries", "Entries of ended operations that are still in watcher lists: whoever holds the lock of the list takes them out, or else the next purge does.",
		func(n *purgatory.Stats) int64 { return n.Stale }),
	counter("accepted_operations_total", "Operations that were accepted, those included that did not have to wait.",
		func(n *purgatory.Stats) int64 { return n.Accepted }),
	counter("checks_total", "Tries of waiting operations.",
		func(n *purgatory.Stats) int64 { return n.Checks }),
	counter("wasted_checks_total", "Tries of waiting operations that said no.",
		func(n *purgatory.Stats) int64 { return n.WastedChecks }),
	counter("signals_total", "Signals, which leave the check of a key to a worker.",
		func(n *purgatory.Stats) int64 { return n.Signals }),
	counter("purged_entries_total", "Entries of ended operations that purges took out.",
		func(n *purgatory.Stats) int64 { return n.Purged }),
	gauge("timeouts_expected", "1 if WithTimeoutsExpected says that it is normal that operations expire, 0 otherwise.",
		func(n *purgatory.Stats) int64 { return int64(number(n.TimeoutsExpected)) }),
	counter("unchecked_operations_total", "Operations that expired, and that no check had come to since they were registered.",
		func(n *purgatory.Stats) int64 { return n.Unchecked }),
	counter("given_up_waits_total", "Waits that their contexts have ended, and operations that were cancelled with an error of package context.",
		func(n *purgatory.Stats) int64 { return n.GaveUp }),
	counter("passed_over_waits_total", "Of the waits given up: those that were not tried because of that.",
		func(n *purgatory.Stats) int64 { return n.PassedOver }),
	counter("panics_total", "Panics in operations' methods, and in other functions of the user's.",
		func(n *purgatory.Stats) int64 { return n.Panics }),
	gauge("running_callbacks", "Callbacks that run now.",
		func(n *purgatory.Stats) int64 { return n.Running }),
	seconds("blocked_callbacks_seconds", "How long, at least, callbacks have been running under some keys while none has returned; 0: they return.",
		func(n *purgatory.Stats) time.Duration { return n.BlockedFor }),
	gauge("due_operations", "A lower bound on the operations past their deadline that wait for a free worker.",
		func(n *purgatory.Stats) int64 { return n.Due }),
	seconds("oldest_due_operation_seconds", "How long, at least, past its deadline the operation is that has been waiting longest for a free worker; 0: none waits.",
		func(n *purgatory.Stats) time.Duration { return n.OldestDue }),
	counter("reaper_stalls_total", "Times that the reaper came back much later than it should have.",
		func(n *purgatory.Stats) int64 { return n.ReaperStalls }),
}

var (
	ended    = desc("ended_operations_total", "Operations that ended, by outcome: satisfied, forced, expired, cancelled, closed.", "outcome")
	rejected = desc("rejected_operations_total", "Operations that were not accepted, by reason: the purgatory was closed, or full; bad input.", "reason")

	// Only with purgatory.WithDiagnostics.
	waited = desc("wait_seconds", "How long operations had been waiting when they ended, by outcome.", "outcome")
)
