package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/wire"
)

// versions is what this broker speaks. Two entries need a word. Produce begins
// at 0 as it does in Kafka 4: librdkafka compresses only for brokers that list
// version 0. The requests before 3 are read and their message sets, a format
// given up in 2017, are refused one by one. UpdateMetadata is the controller's.
var versions = wire.Versions{
	0:  {Min: 0, Max: 11}, // Produce
	1:  {Min: 4, Max: 16}, // Fetch
	2:  {Min: 1, Max: 7},  // ListOffsets
	3:  {Min: 0, Max: 12}, // Metadata
	6:  {Min: 7, Max: 7},  // UpdateMetadata
	8:  {Min: 2, Max: 9},  // OffsetCommit
	9:  {Min: 1, Max: 9},  // OffsetFetch
	10: {Min: 0, Max: 4},  // FindCoordinator
	11: {Min: 0, Max: 9},  // JoinGroup
	12: {Min: 0, Max: 4},  // Heartbeat
	13: {Min: 0, Max: 5},  // LeaveGroup
	14: {Min: 0, Max: 5},  // SyncGroup
	15: {Min: 0, Max: 5},  // DescribeGroups
	16: {Min: 0, Max: 4},  // ListGroups
	18: {Min: 0, Max: 4},  // ApiVersions
	19: {Min: 2, Max: 7},  // CreateTopics
	20: {Min: 0, Max: 6},  // DeleteTopics
	21: {Min: 0, Max: 2},  // DeleteRecords
	22: {Min: 0, Max: 4},  // InitProducerId
	23: {Min: 2, Max: 4},  // OffsetForLeaderEpoch
	32: {Min: 0, Max: 4},  // DescribeConfigs
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
		b.metadata(req, reply)
	case *kmsg.UpdateMetadataRequest:
		reply(b.updateMetadata(req))
	case *kmsg.OffsetCommitRequest:
		b.offsetCommit(c, req, reply)
	case *kmsg.OffsetFetchRequest:
		reply(b.offsetFetch(req))
	case *kmsg.FindCoordinatorRequest:
		b.findCoordinator(req, reply)
	case *kmsg.JoinGroupRequest:
		b.joinGroup(c, req, reply)
	case *kmsg.HeartbeatRequest:
		reply(b.groupHeartbeat(req))
	case *kmsg.LeaveGroupRequest:
		reply(b.leaveGroup(req))
	case *kmsg.SyncGroupRequest:
		b.syncGroup(c, req, reply)
	case *kmsg.ApiVersionsRequest:
		reply(versions.Answer(req))
	case *kmsg.CreateTopicsRequest:
		b.createTopics(req, reply)
	case *kmsg.DeleteTopicsRequest:
		b.deleteTopics(req, reply)
	case *kmsg.DeleteRecordsRequest:
		b.deleteRecords(c, req, reply)
	case *kmsg.DescribeGroupsRequest:
		reply(b.describeGroups(req))
	case *kmsg.ListGroupsRequest:
		reply(b.listGroups(req))
	case *kmsg.DescribeConfigsRequest:
		reply(b.describeConfigs(req))
	case *kmsg.InitProducerIDRequest:
		b.initProducerID(req, reply)
	case *kmsg.OffsetForLeaderEpochRequest:
		reply(b.offsetForLeaderEpoch(req))
	}
}

// Gone forgets whatever a client that has left was waiting for.
func (b *Broker) Gone(c *wire.Conn) {
	key := goneKey(c).Key
	b.produces.CancelForKey(key, errGone)
	b.fetches.CancelForKey(key, errGone)
	b.deletes.CancelForKey(key, errGone)
	b.groups.Gone(c.ID)
}

// partition finds a replica by its topic's name, or by its id where the
// client's version has that.
func (b *Broker) partition(name string, id [16]byte, n int32) (*partition, error) {
	pic := b.current.Load()
	t, missing := pic.topics[name], error(kerr.UnknownTopicOrPartition)
	if name == "" {
		t, missing = pic.byID[id], kerr.UnknownTopicID
	}
	switch {
	case t == nil:
		return nil, missing
	case n < 0 || int(n) >= len(t.partitions):
		return nil, kerr.UnknownTopicOrPartition
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.mu.partitions[topicPartition{t.id, n}]; p != nil {
		return p, nil
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
