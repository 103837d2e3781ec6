// Package prometheus collects what purgatories know of themselves, for a registry of the
// user's:
//
//	collector, err := prometheus.New(produces, fetches)
//	registry.MustRegister(collector)
//
// Nothing is registered behind the user's back, and nothing is computed until somebody
// scrapes: a scrape reads Stats of each purgatory, which costs O(shards). Each metric has
// the label purgatory, its name.
//
// Histograms and the age of the oldest operation are there for purgatories that were
// made with purgatory.WithHistograms; [Options.NativeHistograms] adds native buckets.
//
// [Collector.AddSignals] adds a source of hints from other processes, whose metrics have the
// label signals.
//
// The folder has alert rules (alerts.yaml), their tests for promtool (alerts_test.yaml), and
// a dashboard for Grafana (dashboard.json).
package prometheus
