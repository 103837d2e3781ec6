package purgatory

import "time"

// WithHistograms keeps the age of the oldest pending operation and histograms of
// ages, waits and lateness: see Stats. It costs an operation a few nanoseconds, a
// reading of the clock for each batch that ends together, and a few kilobytes for
// each watcher shard. Default: off.
func WithHistograms() Option { return func(c *config) { c.observe.Times = true } }

// WithKeyStats tells keys apart, for Inspect: the n busiest, and the n with the
// most expiries (rounded up to equal parts for the watcher shards, of at least 4);
// 512 is a good number. Memory is bounded by n: when more keys are busy, those with
// the least going on are forgotten, and begin at zero when they come back. What a
// key refers to lives as long as it is remembered. Default 0: off.
func WithKeyStats(n int) Option { return func(c *config) { c.observe.Keys = n } }

// WithSlowCallback logs callbacks (OnComplete, OnExpiration, and TryComplete of
// operations that wait) that take longer than threshold: event
// "purgatory.callback.slow" to the logger of WithLogger. It reads the clock twice
// for each. Default 0: off.
func WithSlowCallback(threshold time.Duration) Option { return func(c *config) { c.slow = threshold } }
