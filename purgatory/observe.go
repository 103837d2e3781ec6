package purgatory

// WithHistograms keeps the age of the oldest pending operation, and histograms of ages,
// waits and lateness: see [Stats]. It costs a few nanoseconds for each operation, one
// reading of the clock for each batch that ends together, and a few kilobytes for each
// watcher shard. Default: off.
func WithHistograms() Option { return func(c *config) { c.histograms = true } }

// WithKeyStats counts events for single keys, for [DelayedOperationPurgatory.Inspect]: for
// the n busiest keys, and for the n keys with the most expiries. 512 is a good n; it is
// rounded up so that each watcher shard has an equal part of at least 4. Its memory is
// bounded by n: when more keys are busy, the least busy are forgotten, and their counts
// begin at zero when they come back. A key that is counted is kept in memory. The maximum is
// 1,048,576. Default 0: off.
func WithKeyStats(n int) Option { return func(c *config) { c.keyStats = n } }
