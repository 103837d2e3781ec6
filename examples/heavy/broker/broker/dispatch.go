package broker

import (
	"errors"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/group"
	"github.com/delayedop/purgatory/examples/heavy/broker/wire"
)

// versions is what this broker speaks. Newer ones name topics by id, or ask for several
// groups at once: clients do without. Two entries need a word. Produce begins
// at 0 as it does in Kafka 4: librdkafka compresses only for brokers that list
// version 0. The requests before 3 are read and their message sets, a format
// given up in 2017, are refused one by one. ConsumerGroupHeartbeat is refused.
var versions = wire.Versions{
	0:  {Min: 0, Max: 11}, // Produce
	1:  {Min: 4, Max: 11}, // Fetch
	2:  {Min: 1, Max: 7},  // ListOffsets
	3:  {Min: 1, Max: 9},  // Metadata
	8:  {Min: 2, Max: 9},  // OffsetCommit
	9:  {Min: 1, Max: 7},  // OffsetFetch
	10: {Min: 0, Max: 3},  // FindCoordinator
	11: {Min: 0, Max: 9},  // JoinGroup
	12: {Min: 0, Max: 4},  // Heartbeat
	13: {Min: 0, Max: 5},  // LeaveGroup
	14: {Min: 0, Max: 5},  // SyncGroup
	18: {Min: 0, Max: 4},  // ApiVersions
	19: {Min: 2, Max: 6},  // CreateTopics
	22: {Min: 0, Max: 4},  // InitProducerId
	68: {Min: 0, Max: 1},  // ConsumerGroupHeartbeat
}

// Handle answers one request of a client or of another broker.
func (b *Broker) Handle(c *wire.Conn, req kmsg.Request, reply func(kmsg.Response)) {
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		b.produce(c, req, reply)
	case *kmsg.FetchRequest:
		b.fetch(c, req, reply)
	case *kmsg.ListOffsetsRequest:
		reply(b.listOffsets(req))
	case *kmsg.MetadataRequest:
		reply(b.metadata(req))
	case *kmsg.OffsetCommitRequest:
		reply(b.offsetCommit(req))
	case *kmsg.OffsetFetchRequest:
		reply(b.offsetFetch(req))
	case *kmsg.FindCoordinatorRequest:
		reply(b.findCoordinator(req))
	case *kmsg.JoinGroupRequest:
		b.config.Groups.Join(client(c), req, reply)
	case *kmsg.HeartbeatRequest:
		reply(b.config.Groups.Heartbeat(req))
	case *kmsg.LeaveGroupRequest:
		reply(b.config.Groups.Leave(req))
	case *kmsg.SyncGroupRequest:
		b.config.Groups.Sync(client(c), req, reply)
	case *kmsg.ApiVersionsRequest:
		reply(versions.Answer(req.Version))
	case *kmsg.CreateTopicsRequest:
		reply(b.createTopics(req))
	case *kmsg.InitProducerIDRequest:
		reply(b.initProducerID(req))
	case *kmsg.ConsumerGroupHeartbeatRequest:
		reply(refuseConsumerGroup(req))
	}
}

// client is where the answer to a group's member goes.
func client(c *wire.Conn) group.Client { return group.Client{Conn: c.ID, Open: c.Open} }

// Gone forgets whatever a client that has left was waiting for.
func (b *Broker) Gone(c *wire.Conn) {
	key := goneKey(c).Key
	b.produces.CancelForKey(key, net.ErrClosed)
	b.fetches.CancelForKey(key, net.ErrClosed)
	b.config.Groups.Gone(c.ID)
}

// partition finds a replica.
func (b *Broker) partition(topic string, n int32) (*partition, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.mu.partitions[topicPartition{Topic: topic, N: n}]; p != nil {
		return p, nil
	}
	if n < 0 || int(n) >= len(b.current.Load().Topics[topic]) {
		return nil, kerr.UnknownTopicOrPartition
	}
	return nil, kerr.NotLeaderForPartition // it is elsewhere, or not here yet
}

// code is an error as the protocol writes it.
func code(err error) int16 {
	if err == nil {
		return 0
	}
	if k := (*kerr.Error)(nil); errors.As(err, &k) {
		return k.Code
	}
	return kerr.UnknownServerError.Code
}
