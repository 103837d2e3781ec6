package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog/batchtest"
)

// alone is a topic of four partitions with one replica each, of which the broker
// leads two.
func (b *bench) alone() (led []int32) {
	b.t.Helper()
	for i, p := range b.newTopic("alone", 4, 1) {
		if p.Leader == b.config.ID {
			led = append(led, int32(i))
		}
	}
	require.Len(b.t, led, 2)
	return led
}

// awaitBytes is a fetch from the beginning of partitions that waits for so many bytes.
func (b *bench) awaitBytes(minBytes int, partitions ...int32) *kmsg.FetchRequest {
	req := b.fetchRequest(0)
	req.MinBytes, req.MaxBytes = int32(minBytes), 1<<30
	req.Topics[0].Topic = "alone"
	req.Topics[0].Partitions = nil
	for _, n := range partitions {
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.PartitionMaxBytes = n, 1<<30
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
	}
	return req
}

func produceTo(topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, 1, 60_000
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, records
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{rp}}}
	return req
}

func (b *bench) produced1(req *kmsg.ProduceRequest) {
	b.t.Helper()
	require.NoError(b.t, b.produced(b.start(b.dial(), req)))
}

// TestAFetchWaitsForItsBytes: of a hundred appends only those that bring it
// enough have it looked at.
func TestAFetchWaitsForItsBytes(t *testing.T) {
	b := newBench(t, 2)
	led := b.alone()
	records := batchtest.Build(1, []byte("v"))
	fetch := b.start(b.dial(), b.awaitBytes(100*len(records), led[0]))
	b.waiting(b.fetches, 1)
	for i := range 100 {
		require.Empty(t, fetch, "after %d", i)
		b.produced1(produceTo("alone", led[0], records))
	}
	require.Len(t, b.fetched(fetch).RecordBatches, 100*len(records))
	stats := b.fetches.Stats()
	require.Equal(t, int64(1), stats.Checks)
	require.Zero(t, stats.WastedChecks)
	require.Zero(t, stats.Pending)
}

// TestAFetchOfSeveral is looked at whenever one of its partitions gets more, and
// answered when all have enough together: what one may not give, because the client
// limits it, does not count.
func TestAFetchOfSeveral(t *testing.T) {
	b := newBench(t, 2)
	led := b.alone()
	records := batchtest.Build(1, []byte("v"))
	req := b.awaitBytes(10*len(records), led...)
	req.Topics[0].Partitions[0].PartitionMaxBytes = int32(len(records))
	fetch := b.start(b.dial(), req)
	b.waiting(b.fetches, 1)
	for range 20 {
		b.produced1(produceTo("alone", led[0], records))
	}
	require.Empty(t, fetch)
	for range 9 {
		require.Empty(t, fetch)
		b.produced1(produceTo("alone", led[1], records))
	}
	require.Len(t, b.fetched(fetch).RecordBatches, len(records))
	require.Equal(t, int64(29), b.fetches.Stats().Checks)
	require.Zero(t, b.fetches.Stats().Pending)
}

// A fetch that waits for several partitions ends when one of them moves, and when its client goes.
func TestAFetchOfSeveralWaitsEnds(t *testing.T) {
	b := newBench(t, 2)
	led := b.alone()
	records := batchtest.Build(1, []byte("v"))
	client := b.dial()
	gone := b.start(client, b.awaitBytes(1<<20, led...))
	fetch := b.start(b.dial(), b.awaitBytes(1<<20, led...))
	b.waiting(b.fetches, 2)
	big := batchtest.Build(1, make([]byte, 600<<10))
	b.produced1(produceTo("alone", led[0], big)) // half of it: both go on waiting
	b.waiting(b.fetches, 2)
	client.Close()
	b.waiting(b.fetches, 1)
	_, answered := <-gone
	require.False(t, answered)
	b.produced1(produceTo("alone", led[1], records))
	require.Empty(t, fetch)
	b.Stop()
	require.Equal(t, kerr.NotLeaderForPartition.Code, b.fetched(fetch).ErrorCode)
	require.Zero(t, b.fetches.Stats().Pending)
}

func TestAFetchWithoutPartitionsDoesNotWait(t *testing.T) {
	b := newBench(t, 2)
	req := b.fetchRequest(0)
	req.Topics = nil
	resp, err := b.dial().Do(b.ctx, req)
	require.NoError(t, err)
	require.Empty(t, resp.(*kmsg.FetchResponse).Topics)
	require.Equal(t, int64(1), b.fetches.Stats().Satisfied)
}
