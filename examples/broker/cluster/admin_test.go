package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// requireNothingWaits checks that all produces and DeleteRecords have been answered, and
// that with the clients gone no fetch of theirs and no member is left. Followers'
// fetches, one per pair of brokers, are all that may wait.
func requireNothingWaits(t *testing.T, c *Cluster) {
	t.Helper()
	require.Eventually(t, func() bool {
		stats := c.Stats()
		return stats["produce"].Pending == 0 && stats["delete"].Pending == 0 && stats["memory"].Pending == 0 &&
			stats["rebalance"].Pending == 0 && stats["heartbeat"].Pending == 0 &&
			stats["fetch"].Pending <= int64(c.config.Brokers*(c.config.Brokers-1))
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
	groups, err = adm.ListGroups(ctx(t))
	require.NoError(t, err)
	require.Equal(t, "Empty", groups["readers"].State)
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
		deleted, err := adm.DeleteTopics(ctx(t), "brief", "nowhere", "__consumer_offsets")
		require.NoError(t, err)
		require.NoError(t, deleted["brief"].Err)
		require.ErrorIs(t, deleted["nowhere"].Err, kerr.UnknownTopicOrPartition)
		require.ErrorIs(t, deleted["__consumer_offsets"].Err, kerr.InvalidTopicException)
		require.Eventually(t, func() bool {
			topics, err := adm.ListTopics(ctx(t))
			return err == nil && !topics.Has("brief")
		}, patience, time.Millisecond)
	}
	require.Zero(t, c.Stats()["delete"].Expired)
}

// TestRecordsAreDeleted on every replica before the answer.
func TestRecordsAreDeleted(t *testing.T) {
	c := start(t, testConfig())
	cl := client(t, c, kgo.ProducerBatchMaxBytes(1<<10), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	create(t, cl, "old", 2, 3)
	produce(t, cl, "old", 0, 1000) // all to partition 0
	adm := kadm.NewClient(cl)
	var offsets kadm.Offsets
	offsets.AddOffset("old", 0, 600, -1)
	deleted, err := adm.DeleteRecords(ctx(t), offsets)
	require.NoError(t, err)
	got, ok := deleted.Lookup("old", 0)
	require.True(t, ok)
	require.NoError(t, got.Err)
	require.Equal(t, int64(600), got.LowWatermark)
	seen := consume(t, client(t, c, fromStart("old")...), 400)
	require.Len(t, seen, 400)
	require.Contains(t, seen, "000600")
	starts, err := adm.ListStartOffsets(ctx(t), "old")
	require.NoError(t, err)
	start, _ := starts.Lookup("old", 0)
	require.Equal(t, int64(600), start.Offset)

	// Whoever leads next has dropped them too.
	leader := describe(cl, "old")[0].Leader
	require.NoError(t, c.Stop(leader))
	require.Eventually(t, func() bool {
		starts, err := adm.ListStartOffsets(ctx(t), "old")
		start, _ := starts.Lookup("old", 0)
		return err == nil && start.Err == nil && start.Offset == 600
	}, patience, 10*time.Millisecond)
	require.NoError(t, c.Restart(ctx(t), leader))

	offsets = nil
	offsets.AddOffset("old", 0, 5000, -1)
	deleted, err = adm.DeleteRecords(ctx(t), offsets)
	require.NoError(t, err)
	got, _ = deleted.Lookup("old", 0)
	require.ErrorIs(t, got.Err, kerr.OffsetOutOfRange)
	require.Zero(t, c.Stats()["delete"].Expired)
	cl.Close()
	requireNothingWaits(t, c)
}

func TestConfigsAreDescribed(t *testing.T) {
	c := start(t, testConfig())
	cl := client(t, c)
	create(t, cl, "one", 1, 1)
	configs, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx(t), "one", "nowhere")
	require.NoError(t, err)
	one, err := configs.On("one", nil)
	require.NoError(t, err)
	values := make(map[string]string)
	for _, config := range one.Configs {
		values[config.Key] = config.MaybeValue()
	}
	require.Equal(t, "1", values["min.insync.replicas"])
	require.Equal(t, "1048576", values["max.message.bytes"])
	nowhere, err := configs.On("nowhere", nil)
	require.NoError(t, err)
	require.ErrorIs(t, nowhere.Err, kerr.UnknownTopicOrPartition)
}
