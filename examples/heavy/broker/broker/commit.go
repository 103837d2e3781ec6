package broker

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
)

const maxMetadata = 4096 // bytes that a client may store with an offset

// offsetCommit hands the offsets to the controller, which keeps them whichever
// broker coordinates the group next.
func (b *Broker) offsetCommit(req *kmsg.OffsetCommitRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	var failed error
	if err := b.groups.MayCommit(req.Group, req.MemberID, req.InstanceID, req.Generation); err != nil {
		failed = err
	}
	offsets := make(map[controller.TopicPartition]controller.Offset)
	for _, rt := range req.Topics {
		t := b.current.Load().Topics[rt.Topic]
		st := kmsg.NewOffsetCommitResponseTopic()
		st.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			sp := kmsg.NewOffsetCommitResponseTopicPartition()
			sp.Partition = rp.Partition
			entry := controller.Offset{Offset: rp.Offset, LeaderEpoch: rp.LeaderEpoch}
			if rp.Metadata != nil {
				entry.Metadata = *rp.Metadata
			}
			switch {
			case t == nil || rp.Partition < 0 || int(rp.Partition) >= len(t.Partitions):
				sp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case len(entry.Metadata) > maxMetadata:
				sp.ErrorCode = kerr.OffsetMetadataTooLarge.Code
			default:
				offsets[controller.TopicPartition{Topic: rt.Topic, Partition: rp.Partition}] = entry
			}
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	if failed == nil {
		failed = b.controller.Commit(b.session.Load(), req.Group, offsets)
	}
	if failed != nil {
		for _, st := range resp.Topics {
			for i := range st.Partitions {
				st.Partitions[i].ErrorCode = code(failed)
			}
		}
	}
	return resp
}

// offsetFetch says what groups have committed.
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
	resp.ErrorCode, resp.Topics = group.ErrorCode, []kmsg.OffsetFetchResponseTopic{}
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
	sg.Group, sg.Topics = group, []kmsg.OffsetFetchResponseGroupTopic{}
	err := b.coordinates(group)
	if err != nil {
		sg.ErrorCode = err.Code
	}
	committed, all := make(map[controller.TopicPartition]controller.Offset), make(map[string][]int32)
	b.controller.Offsets(group, func(at controller.TopicPartition, offset controller.Offset) {
		committed[at] = offset
		all[at.Topic] = append(all[at.Topic], at.Partition)
	})
	if topics == nil && err == nil {
		for _, topic := range slices.Sorted(maps.Keys(all)) {
			topics = append(topics, kmsg.OffsetFetchRequestGroupTopic{Topic: topic, Partitions: all[topic]})
		}
	}
	for _, rt := range topics {
		st := kmsg.NewOffsetFetchResponseGroupTopic()
		st.Topic = rt.Topic
		for _, n := range rt.Partitions {
			sp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			sp.Partition, sp.Offset, sp.LeaderEpoch, sp.Metadata = n, -1, -1, kmsg.StringPtr("")
			sp.ErrorCode = sg.ErrorCode
			if c, ok := committed[controller.TopicPartition{Topic: rt.Topic, Partition: n}]; ok && err == nil {
				sp.Offset, sp.LeaderEpoch, sp.Metadata = c.Offset, c.LeaderEpoch, &c.Metadata
			}
			st.Partitions = append(st.Partitions, sp)
		}
		sg.Topics = append(sg.Topics, st)
	}
	return sg
}
