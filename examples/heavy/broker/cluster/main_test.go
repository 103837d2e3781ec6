package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/examples/heavy/broker/broker"
	"github.com/delayedop/purgatory/internal/watchdog"
)

// The one goroutine that may be left is of sarama's metrics, which never ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(watchdog.Over(m), goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// patience bounds what would otherwise hang; no test says how long a thing takes.
const patience = 60 * time.Second

func testConfig() Config {
	return Config{
		Brokers: 3, MinSession: 300 * time.Millisecond, InitialRebalance: 50 * time.Millisecond,
		Broker: broker.Config{MaxLag: 500 * time.Millisecond, MinInsyncReplicas: 2},
	}
}

func start(t *testing.T, config Config) *Cluster {
	t.Helper()
	c, err := Start(config)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// client makes a franz-go client as it comes, but for retries that suit a test.
func client(t *testing.T, c *Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(c.Addrs()...),
		kgo.AllowAutoTopicCreation(),
		kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, opts...)
	cl, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func create(t *testing.T, cl *kgo.Client, topic string, partitions int32, replicas int16) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, replicas
	req.Topics = append(req.Topics, rt)
	req.TimeoutMillis = 10_000
	resp, err := req.RequestWith(ctx(t), cl)
	require.NoError(t, err)
	require.Zero(t, resp.Topics[0].ErrorCode)
	for _, broker := range cl.SeedBrokers() {
		require.Eventually(t, func() bool { return knows(t, broker, topic) }, patience, time.Millisecond)
	}
}

// knows reports whether a broker has heard of a topic. Not every client tries again when
// one has not. Of a broker that is stopped it is true.
func knows(t *testing.T, broker *kgo.Broker, topic string) bool {
	req := kmsg.NewPtrMetadataRequest()
	of := kmsg.NewMetadataRequestTopic()
	of.Topic = &topic
	req.Topics = append(req.Topics, of)
	resp, err := broker.Request(ctx(t), req)
	return err != nil || resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode == 0
}

func produce(t *testing.T, cl *kgo.Client, topic string, from, to int) {
	t.Helper()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%06d", i)})
	}
	require.NoError(t, cl.ProduceSync(ctx(t), records...).FirstErr())
}

// consume polls until it has seen n different values.
func consume(t *testing.T, cl *kgo.Client, n int) map[string]int {
	t.Helper()
	return consumeUntil(t, cl, func(seen map[string]int) bool { return len(seen) >= n })
}

func consumeUntil(t *testing.T, cl *kgo.Client, enough func(seen map[string]int) bool) map[string]int {
	t.Helper()
	seen := make(map[string]int)
	for ctx := ctx(t); !enough(seen); {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, ctx.Err(), "saw %d", len(seen))
		fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	return seen
}
