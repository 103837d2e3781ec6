package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/delayedop/purgatory/purgatory"
)

// total adds up what the running brokers' purgatories of a kind say.
func total(c *Cluster, kind string) (sum purgatory.Stats) {
	for name, stats := range c.Stats() {
		if strings.HasPrefix(name, kind+"-") {
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
		return c.Pending("produce")+c.Pending("picture")+c.Pending("rebalance")+c.Pending("heartbeat") == 0 &&
			c.Pending("fetch") <= int64(c.config.Brokers*(c.config.Brokers-1))
	}, patience, time.Millisecond, "%s", c.Table())
}

// TestLag is what kadm says of a group: it asks for members, commits and ends.
func TestLag(t *testing.T) {
	c := start(t, testConfig())
	cl := client(t, c)
	create(t, cl, "lag", 3, 3)
	produce(t, cl, "lag", 0, 90)
	reader := client(t, c, append(fromStart("lag"), kgo.ConsumerGroup("readers"), kgo.DisableAutoCommit())...)
	consume(t, reader, 90)
	require.NoError(t, reader.CommitUncommittedOffsets(ctx(t)))
	produce(t, cl, "lag", 90, 120)
	adm := kadm.NewClient(cl)
	lags, err := adm.Lag(ctx(t), "readers", "nobody")
	require.NoError(t, err)
	require.Equal(t, "Stable", lags["readers"].State)
	require.Len(t, lags["readers"].Members, 1)
	require.Equal(t, int64(30), lags["readers"].Lag.Total())
	require.Equal(t, "Dead", lags["nobody"].State)
	groups, err := adm.ListGroups(ctx(t))
	require.NoError(t, err)
	require.Equal(t, []string{"readers"}, groups.Groups())
	reader.Close()
	require.Eventually(t, func() bool {
		groups, err := adm.DescribeGroups(ctx(t), "readers")
		return err == nil && groups["readers"].State == "Empty"
	}, patience, time.Millisecond)
	cl.Close()
	requireNothingWaits(t, c)
}

// TestATopicIsDeleted, with its records and whoever waits for more, and comes again
// as another.
func TestATopicIsDeleted(t *testing.T) {
	c := start(t, testConfig())
	cl := client(t, c)
	adm := kadm.NewClient(cl)
	for round := range 3 {
		create(t, cl, "brief", 3, 3)
		producer, reader := client(t, c), client(t, c, fromStart("brief")...)
		produce(t, producer, "brief", round*100, round*100+50)
		for value := range consume(t, reader, 50) {
			require.GreaterOrEqual(t, value, fmt.Sprintf("%06d", round*100), "of the former topic")
		}
		producer.Close() // or they would create it again
		reader.Close()
		deleted, err := adm.DeleteTopics(ctx(t), "brief", "nowhere")
		require.NoError(t, err)
		require.NoError(t, deleted["brief"].Err)
		require.ErrorIs(t, deleted["nowhere"].Err, kerr.UnknownTopicOrPartition)
		require.Eventually(t, func() bool {
			topics, err := adm.ListTopics(ctx(t))
			return err == nil && !topics.Has("brief")
		}, patience, time.Millisecond)
	}
	require.Zero(t, total(c, "picture").Expired)
}
