package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog/batchtest"
)

// produceToSeveral produces with acks=all to the partitions of a topic that the
// broker leads, and to one that does not exist, and returns when it waits.
func (b *bench) produceToSeveral(name string) (answer <-chan kmsg.Response, led []int32) {
	b.t.Helper()
	req := produceTo(name, 99, batchtest.Build(1, []byte("v")))
	req.Acks = -1
	for i, p := range b.newTopic(name, 4, 2) {
		if p.Leader == b.config.ID {
			led = append(led, int32(i))
			part := req.Topics[0].Partitions[0]
			part.Partition = int32(i)
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
		}
	}
	require.Len(b.t, led, 2)
	answer = b.start(b.dial(), req)
	b.waiting(b.produces, 1)
	return answer, led
}

// replicateOf lets the silent replica say that it has everything of a partition
// below offset.
func (b *bench) replicateOf(name string, partition int32, offset int64) {
	b.t.Helper()
	req := b.fetchRequest(offset)
	req.ReplicaID, req.MaxWaitMillis = 2, 0
	req.Topics[0].Topic = name
	req.Topics[0].Partitions[0].Partition = partition
	_, err := b.dial().Do(b.ctx, req)
	require.NoError(b.t, err)
}

func (b *bench) answers(answer <-chan kmsg.Response) (errs []error) {
	b.t.Helper()
	resp, ok := <-answer
	require.True(b.t, ok, "the connection ended")
	for _, p := range resp.(*kmsg.ProduceResponse).Topics[0].Partitions {
		errs = append(errs, kerr.ErrorForCode(p.ErrorCode))
	}
	return errs
}

// TestAProduceToSeveralPartitionsIsOneOperation: it is looked at when one of them
// has come to its position, and answered when all have.
func TestAProduceToSeveralPartitionsIsOneOperation(t *testing.T) {
	b := newBench(t, 2)
	answer, led := b.produceToSeveral("several")
	b.replicateOf("several", led[1], 1)
	require.Equal(t, int64(1), b.produces.Stats().Checks)
	require.Empty(t, answer)
	b.replicateOf("several", led[0], 1)
	require.Equal(t, []error{kerr.UnknownTopicOrPartition, nil, nil}, b.answers(answer))
	stats := b.produces.Stats()
	require.Equal(t, int64(1), stats.Accepted)
	require.Equal(t, int64(1), stats.Satisfied)
	require.Equal(t, int64(2), stats.Checks)
	require.Zero(t, stats.Pending)
}

// TestAProduceThatIsReplicatedInPart is answered for each partition by itself.
func TestAProduceThatIsReplicatedInPart(t *testing.T) {
	b := newBench(t, 2)
	answer, led := b.produceToSeveral("several")
	b.replicateOf("several", led[1], 1)
	b.timer.AdvanceClock(time.Minute)
	require.Equal(t, []error{kerr.UnknownTopicOrPartition, kerr.RequestTimedOut, nil}, b.answers(answer))
	require.Equal(t, int64(1), b.produces.Stats().Expired)
}
