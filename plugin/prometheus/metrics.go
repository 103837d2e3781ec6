package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayedop/purgatory/purgatory"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("purgatory_"+name, help, append([]string{"purgatory"}, labels...), nil)
}

// metric is one number of Stats.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*purgatory.Stats) int64
}

func gauge(name, help string, of func(*purgatory.Stats) int64) metric {
	return metric{desc(name, help), prometheus.GaugeValue, of}
}

func counter(name, help string, of func(*purgatory.Stats) int64) metric {
	return metric{desc(name, help), prometheus.CounterValue, of}
}

var metrics = []metric{
	gauge("pending_operations", "Operations that wait: accepted and not ended.",
		func(s *purgatory.Stats) int64 { return s.Pending }),
	gauge("watched_entries", "Entries in watcher lists; an operation has one for each of its keys.",
		func(s *purgatory.Stats) int64 { return s.Watched }),
	gauge("keys", "Keys that somebody waits for.",
		func(s *purgatory.Stats) int64 { return s.Keys }),
	gauge("stale_entries", "Entries of ended operations that wait for the purge.",
		func(s *purgatory.Stats) int64 { return s.Stale }),
	counter("accepted_operations_total", "Operations that were accepted, those included that did not have to wait.",
		func(s *purgatory.Stats) int64 { return s.Accepted }),
	counter("rejected_operations_total", "Operations that were not accepted: purgatory closed or full, bad input.",
		func(s *purgatory.Stats) int64 { return s.Rejected }),
	counter("checks_total", "Tries of waiting operations.",
		func(s *purgatory.Stats) int64 { return s.Checks }),
	counter("wasted_checks_total", "Tries of waiting operations that said no.",
		func(s *purgatory.Stats) int64 { return s.WastedChecks }),
	counter("signals_total", "Signals, which leave the check of a key to a worker.",
		func(s *purgatory.Stats) int64 { return s.Signals }),
	counter("coalesced_signals_total", "Signals whose key was marked already.",
		func(s *purgatory.Stats) int64 { return s.Coalesced }),
	counter("purges_total", "Purges that found something.",
		func(s *purgatory.Stats) int64 { return s.Purges }),
	counter("purged_entries_total", "Entries of ended operations that purges took out.",
		func(s *purgatory.Stats) int64 { return s.Purged }),
	counter("panics_total", "Panics in operations' methods.",
		func(s *purgatory.Stats) int64 { return s.Panics }),
}

var (
	ended = desc("ended_operations_total", "Operations that ended, by outcome: satisfied, forced, expired, cancelled, closed.", "outcome")

	// Only with purgatory.WithHistograms.
	oldestAge = desc("oldest_operation_age_seconds", "How long the oldest waiting operation has been waiting, too high by 6.4 % at most.")
	waited    = desc("wait_seconds", "How long operations had been waiting when they ended, by outcome.", "outcome")
	late      = desc("expiry_lateness_seconds", "How long after its deadline an operation expired.")
	// age is a gauge and no histogram: what waits can become less, and a histogram's
	// buckets only grow.
	age = desc("pending_operations_by_age", "Operations that have been waiting for at most this many seconds.", "age")
)
