package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// createRaw asks for a topic of one replica and returns the protocol's error.
func (r *raw) createRaw(topic string, partitions int32) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, 1
	req.Topics = append(req.Topics, rt)
	return kerr.ErrorForCode(r.ask(req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
}

// partitions asks for some topics' metadata, all topics' with none, and returns how many
// partitions each has. Topics that are missing are created if the broker lets them be.
func (r *raw) partitions(topics ...string) map[string]int {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 9, true
	for _, topic := range topics {
		of := kmsg.NewMetadataRequestTopic()
		of.Topic = &topic
		req.Topics = append(req.Topics, of)
	}
	counts := make(map[string]int)
	for _, st := range r.ask(req).(*kmsg.MetadataResponse).Topics {
		counts[*st.Topic] = len(st.Partitions)
	}
	return counts
}

// TestFourThousandPartitionsOfAllTopics: one more is refused, and nothing of its topic is
// there, whether it is asked for by name or created by a request for metadata. What fits
// is created afterwards.
func TestFourThousandPartitionsOfAllTopics(t *testing.T) {
	config := testConfig()
	config.Brokers, config.Broker.MinInsyncReplicas = 1, 1
	r := dial(t, start(t, config))
	require.NoError(t, r.createRaw("most", 3000))
	require.NoError(t, r.createRaw("more", 998))
	require.Equal(t, kerr.InvalidPartitions, r.createRaw("three", 3))
	require.Equal(t, map[string]int{"automatic": 0}, r.partitions("automatic"), "three partitions, too")
	require.Equal(t, map[string]int{"most": 3000, "more": 998}, r.partitions())

	require.NoError(t, r.createRaw("two", 2))
	require.Equal(t, kerr.InvalidPartitions, r.createRaw("one", 1))
	require.Equal(t, map[string]int{"most": 3000, "more": 998, "two": 2}, r.partitions())
}

// TestATopicIsDescribedOnce, however often a request for metadata names it: a name takes three
// bytes of the request, and a topic of 3,000 partitions 80 KB of the answer.
func TestATopicIsDescribedOnce(t *testing.T) {
	config := testConfig()
	config.Brokers, config.Broker.MinInsyncReplicas = 1, 1
	r := dial(t, start(t, config))
	require.NoError(t, r.createRaw("t", 3))
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	for range 1000 {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr("t")}, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr("none")})
	}
	require.Len(t, r.ask(req).(*kmsg.MetadataResponse).Topics, 2)
}

// TestAHundredProtocolsOfAMember: one more is refused, and neither a member nor its session
// nor a rebalance is there. A hundred are taken.
func TestAHundredProtocolsOfAMember(t *testing.T) {
	config := testConfig()
	config.Brokers = 1
	c := start(t, config)
	r := dial(t, c)
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType = 9, "g", "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
	for i := range 101 {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = fmt.Sprint("protocol-", i)
		req.Protocols = append(req.Protocols, p)
	}
	refused := r.ask(req).(*kmsg.JoinGroupResponse)
	require.Equal(t, kerr.InconsistentGroupProtocol, kerr.ErrorForCode(refused.ErrorCode))
	require.Empty(t, refused.MemberID)
	require.Zero(t, total(c, "heartbeat").Pending+total(c, "rebalance").Pending)

	req.Protocols = req.Protocols[:100]
	joined := r.ask(req).(*kmsg.JoinGroupResponse)
	require.NoError(t, kerr.ErrorForCode(joined.ErrorCode))
	require.Len(t, joined.Members, 1, "the one that was refused is not among them")
}
