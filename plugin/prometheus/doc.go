// Package prometheus has a collector that exports the statistics of purgatories:
//
//	collector, err := prometheus.New(produces, fetches)
//	registry.MustRegister(collector)
//
// The package registers nothing by itself, and the collector does nothing until a server
// scrapes: it then calls Stats of each purgatory, in O(shards). Each metric has the label
// purgatory, the purgatory's name.
//
// Histograms and the age of the oldest operation are exported for purgatories that were
// made with purgatory.WithDiagnostics; [Options.NativeHistograms] adds native buckets.
//
// [Collector.AddSignals] adds a source of hints from other processes, whose metrics have the
// label signals.
//
// The folder has alert rules (alerts.yaml), their tests for promtool (alerts_test.yaml), and
// a dashboard for Grafana (dashboard.json).
package prometheus
