package broker

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/batch"
	"github.com/delayedop/purgatory/examples/broker/wire"
)

const (
	commitTimeout = 5 * time.Second
	maxMetadata   = 4096 // bytes that a client may store with an offset
)

// offsetCommit appends the offsets to the group's partition and waits, as a
// produce with acks=all does, until they are replicated.
func (b *Broker) offsetCommit(c *wire.Conn, req *kmsg.OffsetCommitRequest, reply func(kmsg.Response)) {
	err := b.coordinates(req.Group)
	if err == nil {
		if k := b.groups.MayCommit(req.Group, req.MemberID, req.InstanceID, req.Generation); k != nil {
			err = k
		}
	}
	if err != nil {
		reply(commitResponse(req, func(string, kmsg.OffsetCommitRequestTopicPartition) error { return err }))
		return
	}
	entries, records := make(map[offsetKey]commit), []batch.Record(nil)
	now := time.Now().UnixMilli()
	resp := commitResponse(req, func(topic string, rp kmsg.OffsetCommitRequestTopicPartition) error {
		entry := commit{offset: rp.Offset, leaderEpoch: rp.LeaderEpoch}
		if rp.Metadata != nil {
			entry.metadata = *rp.Metadata
		}
		switch t := b.current.Load().topics[topic]; {
		case t == nil || rp.Partition < 0 || int(rp.Partition) >= len(t.partitions):
			return kerr.UnknownTopicOrPartition
		case len(entry.metadata) > maxMetadata:
			return kerr.OffsetMetadataTooLarge
		}
		key := offsetKey{req.Group, topic, rp.Partition}
		entries[key] = entry
		records = append(records, entry.record(key, now))
		return nil
	})
	if len(records) == 0 {
		reply(resp)
		return
	}
	n := b.offsetsPartition(req.Group)
	b.replicate(c, n, batch.Build(now, records), func(end int64, err error) {
		if err == nil {
			b.offsets.store(n, end, entries)
		}
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if sp := &resp.Topics[i].Partitions[j]; sp.ErrorCode == 0 {
					sp.ErrorCode = code(asCoordinator(err))
				}
			}
		}
		reply(resp)
	})
}

// commitResponse answers for each partition with what of says of it.
func commitResponse(req *kmsg.OffsetCommitRequest, of func(topic string, rp kmsg.OffsetCommitRequestTopicPartition) error) *kmsg.OffsetCommitResponse {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewOffsetCommitResponseTopic()
		st.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			sp := kmsg.NewOffsetCommitResponseTopicPartition()
			sp.Partition, sp.ErrorCode = rp.Partition, code(of(rt.Topic, rp))
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

// replicate appends to the offsets topic and calls answer when that is done, with where
// the records end in the log.
func (b *Broker) replicate(c *wire.Conn, n int32, records batch.Batch, answer func(end int64, err error)) {
	p, err := b.partition(offsetsTopic, [16]byte{}, n)
	if err != nil {
		answer(0, err)
		return
	}
	_, end, epoch, pr, err := p.append(records, -1)
	if err != nil {
		answer(0, err)
		return
	}
	b.wake(p, pr)
	wait := replication(p, epoch, end, func(err error) { answer(end, err) })
	b.acknowledge(b.produces, c, []awaited{wait}, commitTimeout, func() {})
}

// asCoordinator says what a partition's error means to a group.
func asCoordinator(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.NotLeaderForPartition):
		return kerr.NotCoordinator
	default:
		return kerr.CoordinatorNotAvailable
	}
}

// offsetFetch says what a group has committed.
func (b *Broker) offsetFetch(req *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version >= 8 {
		for _, rg := range req.Groups {
			resp.Groups = append(resp.Groups, b.committedOf(rg.Group, rg.Topics))
		}
		return resp
	}
	var topics []kmsg.OffsetFetchRequestGroupTopic // nil, for all, stays nil
	for _, rt := range req.Topics {
		topics = append(topics, kmsg.OffsetFetchRequestGroupTopic{Topic: rt.Topic, Partitions: rt.Partitions})
	}
	group := b.committedOf(req.Group, topics)
	resp.ErrorCode = group.ErrorCode
	resp.Topics = []kmsg.OffsetFetchResponseTopic{}
	for _, gt := range group.Topics {
		st := kmsg.NewOffsetFetchResponseTopic()
		st.Topic = gt.Topic
		for _, gp := range gt.Partitions {
			st.Partitions = append(st.Partitions, kmsg.OffsetFetchResponseTopicPartition(gp))
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

func (b *Broker) committedOf(group string, topics []kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroup {
	sg := kmsg.NewOffsetFetchResponseGroup()
	sg.Group = group
	sg.Topics = []kmsg.OffsetFetchResponseGroupTopic{}
	err := b.coordinates(group)
	sg.ErrorCode = code(err)
	n := b.offsetsPartition(group)
	if topics == nil && err == nil {
		for topic, partitions := range b.offsets.topics(n, group) {
			topics = append(topics, kmsg.OffsetFetchRequestGroupTopic{Topic: topic, Partitions: partitions})
		}
	}
	for _, rt := range topics {
		st := kmsg.NewOffsetFetchResponseGroupTopic()
		st.Topic = rt.Topic
		for _, partition := range rt.Partitions {
			sp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			sp.Partition, sp.Offset, sp.LeaderEpoch, sp.Metadata = partition, -1, -1, kmsg.StringPtr("")
			sp.ErrorCode = code(err)
			if c, ok := b.offsets.of(n, offsetKey{group, rt.Topic, partition}); ok {
				sp.Offset, sp.LeaderEpoch, sp.Metadata = c.offset, c.leaderEpoch, &c.metadata
			}
			st.Partitions = append(st.Partitions, sp)
		}
		sg.Topics = append(sg.Topics, st)
	}
	return sg
}
