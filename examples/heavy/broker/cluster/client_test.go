package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func fromStart(topic string) []kgo.Opt {
	return []kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
}

func TestProduceAndConsume(t *testing.T) {
	c := start(t, testConfig())
	for name, opts := range map[string][]kgo.Opt{
		"acks-all-idempotent": nil,
		"acks-1":              {kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()},
		"acks-0":              {kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()},
		"gzip":                {kgo.ProducerBatchCompression(kgo.GzipCompression())},
		"snappy":              {kgo.ProducerBatchCompression(kgo.SnappyCompression())},
		"lz4":                 {kgo.ProducerBatchCompression(kgo.Lz4Compression())},
		"zstd":                {kgo.ProducerBatchCompression(kgo.ZstdCompression())},
	} {
		t.Run(name, func(t *testing.T) {
			produce(t, client(t, c, opts...), name, 0, 500)
			for value, times := range consume(t, client(t, c, fromStart(name)...), 500) {
				require.Equal(t, 1, times, value)
			}
		})
	}
}

// TestConsumeFromTheEnd: what was there before is not read.
func TestConsumeFromTheEnd(t *testing.T) {
	c := start(t, testConfig())
	producer := client(t, c)
	create(t, producer, "news", 1, 3)
	produce(t, producer, "news", 0, 100)
	reader := client(t, c, kgo.ConsumeTopics("news"), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	polled := make(chan kgo.Fetches)
	go func() { polled <- reader.PollFetches(ctx(t)) }()
	// Two followers and the reader, who thus knows where the end was.
	require.Eventually(t, func() bool { return total(c, "fetch").Pending == 3 }, patience, time.Millisecond)
	produce(t, producer, "news", 100, 101)
	fetches := <-polled
	require.NoError(t, fetches.Err())
	require.Equal(t, "000100", string(fetches.Records()[0].Value))
	require.Equal(t, 1, fetches.NumRecords())
}

// TestALongPollOfTwoPartitions is answered by either of them.
func TestALongPollOfTwoPartitions(t *testing.T) {
	c := start(t, testConfig())
	producer := client(t, c, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	create(t, producer, "two", 2, 3)
	reader := client(t, c, append(fromStart("two"), kgo.FetchMaxWait(30*time.Second))...)
	for partition := range int32(2) {
		polled := make(chan kgo.Fetches)
		go func() { polled <- reader.PollFetches(ctx(t)) }()
		record := &kgo.Record{Topic: "two", Partition: partition, Value: []byte("x")}
		require.NoError(t, producer.ProduceSync(ctx(t), record).FirstErr())
		require.Equal(t, partition, (<-polled).Records()[0].Partition)
	}
}

// TestLargeRecordsFromManyPartitions: what does not fit into one response comes
// with the next, and nobody starves.
func TestLargeRecordsFromManyPartitions(t *testing.T) {
	config := testConfig()
	config.Broker.MaxFetchBytes = 1 << 20
	c := start(t, config)
	producer := client(t, c, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	create(t, producer, "large", 6, 3)
	var records []*kgo.Record
	for i := range 48 {
		value := make([]byte, 200<<10)
		copy(value, fmt.Sprintf("%06d", i))
		records = append(records, &kgo.Record{Topic: "large", Value: value})
	}
	require.NoError(t, producer.ProduceSync(ctx(t), records...).FirstErr())
	require.Len(t, consume(t, client(t, c, fromStart("large")...), 48), 48)
}

// TestTooFewInSync: with two of three brokers down there is nobody to
// acknowledge acks=all; acks=1 asks for less and gets it.
func TestTooFewInSync(t *testing.T) {
	c := start(t, testConfig())
	cl := client(t, c)
	create(t, cl, "few", 1, 3)
	require.NoError(t, c.Stop(2))
	require.NoError(t, c.Kill(3))
	awaitLeader(t, cl, "few", 1)
	r := dial(t, c)
	req := produceRequest("few", recordBatch())
	produced := func() error {
		return kerr.ErrorForCode(r.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	}
	require.Eventually(t, func() bool { return errors.Is(produced(), kerr.NotEnoughReplicas) }, patience, time.Millisecond)
	req.Acks = 1
	require.NoError(t, produced())
	require.NoError(t, c.Restart(2))
	require.NoError(t, c.Restart(3))
	awaitInSync(t, cl, "few")
	produce(t, cl, "few", 0, 10)
}

// TestOffsetsByTime are refused, and those of the beginning and the end are there.
func TestOffsetsByTime(t *testing.T) {
	c := start(t, testConfig())
	cl := client(t, c)
	create(t, cl, "times", 1, 3)
	produce(t, cl, "times", 0, 3)
	for timestamp, want := range map[int64]int64{-2: 0, -1: 3, 2000: -1} {
		req := kmsg.NewPtrListOffsetsRequest()
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Timestamp = timestamp
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "times", Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}}}
		resp, err := req.RequestWith(ctx(t), cl)
		require.NoError(t, err)
		got := resp.Topics[0].Partitions[0]
		require.Equal(t, want, got.Offset, "at %d", timestamp)
		require.Equal(t, want < 0, got.ErrorCode == kerr.UnsupportedForMessageFormat.Code)
	}
}

// awaitLeader waits until every partition of a topic has that leader.
func awaitLeader(t *testing.T, cl *kgo.Client, topic string, leader int32) {
	t.Helper()
	require.Eventually(t, func() bool {
		partitions := describe(cl, topic)
		for _, p := range partitions {
			if p.Leader != leader {
				return false
			}
		}
		return len(partitions) > 0
	}, patience, 10*time.Millisecond)
}

// describe is what the cluster says of a topic; nil if it says nothing now.
func describe(cl *kgo.Client, topic string) []kmsg.MetadataResponseTopicPartition {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(context.Background(), cl)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		return nil
	}
	return resp.Topics[0].Partitions
}
