package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/group"
)

// findCoordinator names this broker: all have one coordinator. Of transactions there are
// none.
func (b *Broker) findCoordinator(req *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	at := b.server.Addr()
	resp.NodeID, resp.Host, resp.Port = b.config.ID, at.IP.String(), int32(at.Port)
	if req.CoordinatorType != 0 {
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
	}
	return resp
}

// offsetCommit hands the offsets to the coordinator.
func (b *Broker) offsetCommit(req *kmsg.OffsetCommitRequest) kmsg.Response {
	offsets := make(group.Offsets)
	for _, rt := range req.Topics {
		for _, rp := range rt.Partitions {
			offsets[topicPartition{Topic: rt.Topic, N: rp.Partition}] = rp
		}
	}
	err := b.config.Groups.Commit(req, offsets)
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewOffsetCommitResponseTopic()
		st.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			sp := kmsg.NewOffsetCommitResponseTopicPartition()
			sp.Partition, sp.ErrorCode = rp.Partition, code(err)
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

// offsetFetch says what a group has committed of the partitions asked for.
func (b *Broker) offsetFetch(req *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	resp.Topics = []kmsg.OffsetFetchResponseTopic{}
	committed := b.config.Groups.Committed(req.Group)
	for _, rt := range req.Topics {
		st := kmsg.NewOffsetFetchResponseTopic()
		st.Topic = rt.Topic
		for _, n := range rt.Partitions {
			sp := kmsg.NewOffsetFetchResponseTopicPartition()
			sp.Partition, sp.Offset, sp.LeaderEpoch, sp.Metadata = n, -1, -1, kmsg.StringPtr("")
			if c, ok := committed[topicPartition{Topic: rt.Topic, N: n}]; ok {
				sp.Offset, sp.LeaderEpoch, sp.Metadata = c.Offset, c.LeaderEpoch, c.Metadata
			}
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

// initProducerID gives an idempotent producer its id. Transactions there are
// none, and their ids are refused.
func (b *Broker) initProducerID(req *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID = b.config.Controller.NextProducerID()
	if req.TransactionalID != nil {
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = kerr.TransactionalIDAuthorizationFailed.Code, -1, -1
	}
	return resp
}

// refuseConsumerGroup tells a member that wants the protocol of KIP-848 that there is
// none. A client that finds the request unlisted may wait for it without a word.
func refuseConsumerGroup(req *kmsg.ConsumerGroupHeartbeatRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	resp.ErrorCode, resp.ErrorMessage = kerr.UnsupportedVersion.Code, kmsg.StringPtr("this broker speaks the classic group protocol only")
	return resp
}
