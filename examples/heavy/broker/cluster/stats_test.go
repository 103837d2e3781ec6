package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// total adds up what the running brokers' purgatories of a kind say.
func total(c *Cluster, kind string) (sum purgatory.Stats) {
	switch kind {
	case "rebalance":
		return c.config.Broker.Groups.Rebalances.Stats()
	case "heartbeat":
		return c.config.Broker.Groups.Heartbeats.Stats()
	}
	for id := range c.config.Brokers {
		if b := c.Broker(id + 1); b != nil {
			stats := b.Stats()[kind]
			sum.Pending += stats.Pending
			sum.Expired += stats.Expired
			sum.Panics += stats.Panics
		}
	}
	return sum
}

// requireNothingWaits checks that all produces have been answered, and that with the
// clients gone no fetch of theirs and no member is left. Followers' fetches, one per
// pair of brokers, are all that may wait.
func requireNothingWaits(t *testing.T, c *Cluster) {
	t.Helper()
	require.Eventually(t, func() bool {
		return total(c, "produce").Pending+total(c, "rebalance").Pending+total(c, "heartbeat").Pending == 0 &&
			total(c, "fetch").Pending <= int64(c.config.Brokers*(c.config.Brokers-1))
	}, patience, time.Millisecond)
}
