package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestATopicOfOneReplica takes acks=all, whatever the minimum in sync: all of its
// replicas is one.
func TestATopicOfOneReplica(t *testing.T) {
	c := start(t, testConfig()) // which wants two
	cl := client(t, c)
	for replicas := int16(1); replicas <= 3; replicas++ {
		topic := fmt.Sprintf("replicas-%d", replicas)
		create(t, cl, topic, 3, replicas)
		produce(t, cl, topic, 0, 50)
		consume(t, client(t, c, fromStart(topic)...), 50)
	}
}

// TestTheMinimumIsNotLowered: of two replicas one that is left does not acknowledge
// alone.
func TestTheMinimumIsNotLowered(t *testing.T) {
	config := testConfig()
	config.Brokers = 2
	c := start(t, config)
	cl := client(t, c, kgo.RequiredAcks(kgo.AllISRAcks()))
	create(t, cl, "two", 1, 2)
	produce(t, cl, "two", 0, 10)
	require.NoError(t, c.Kill(2))
	awaitLeader(t, cl, "two", 1)
	r := dial(t, c)
	req := produceRequest("two", recordBatch())
	produced := func() error {
		return kerr.ErrorForCode(r.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	}
	require.Error(t, produced())
	require.NoError(t, c.Restart(2))
}
