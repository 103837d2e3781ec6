package broker

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
)

// createTopics has the controller make topics, which this broker then knows.
func (b *Broker) createTopics(req *kmsg.CreateTopicsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewCreateTopicsResponseTopic()
		st.Topic = rt.Topic
		t, err := b.createTopic(rt, req.ValidateOnly)
		if err != nil {
			st.ErrorCode, st.ErrorMessage = code(err), kmsg.StringPtr(err.Error())
		} else {
			st.NumPartitions, st.ReplicationFactor = int32(len(t)), int16(len(t[0].Replicas))
		}
		resp.Topics = append(resp.Topics, st)
	}
	b.apply(b.config.Controller.Picture())
	return resp
}

func (b *Broker) createTopic(rt kmsg.CreateTopicsRequestTopic, dry bool) (controller.Topic, error) {
	switch {
	case dry:
		return nil, kerr.InvalidRequest
	case len(rt.ReplicaAssignment) > 0:
		return nil, kerr.InvalidReplicaAssignment
	case len(rt.Configs) > 0:
		return nil, kerr.InvalidConfig
	}
	return b.config.Controller.Create(rt.Topic, rt.NumPartitions, rt.ReplicationFactor)
}

// metadata says who leads what. Topics that do not exist yet are created where
// the client allows it. What cannot be created stays missing.
func (b *Broker) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	pic, names := b.current.Load(), []string{}
	for _, rt := range req.Topics {
		names = append(names, *rt.Topic)
		if pic.Topics[*rt.Topic] == nil && (req.AllowAutoTopicCreation || req.Version < 4) {
			_, _ = b.config.Controller.Create(*rt.Topic, controller.Default, controller.Default)
		}
	}
	b.apply(b.config.Controller.Picture())
	pic = b.current.Load()
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.ClusterID = kmsg.StringPtr("purgatory-example")
	resp.ControllerID = b.config.ID // every broker asks the controller for its clients
	for _, id := range slices.Sorted(maps.Keys(pic.Brokers)) {
		sb := kmsg.NewMetadataResponseBroker()
		sb.NodeID, sb.Host, sb.Port = id, pic.Brokers[id].Addr().String(), int32(pic.Brokers[id].Port())
		resp.Brokers = append(resp.Brokers, sb)
	}
	if req.Topics == nil {
		names = slices.Collect(maps.Keys(pic.Topics))
	}
	slices.Sort(names)
	resp.Topics = []kmsg.MetadataResponseTopic{}
	for _, name := range slices.Compact(names) { // a thousand partitions once, however often they are asked for
		resp.Topics = append(resp.Topics, describe(name, pic))
	}
	return resp
}

// describe is what a picture says of a topic.
func describe(name string, pic *controller.Picture) kmsg.MetadataResponseTopic {
	st := kmsg.NewMetadataResponseTopic()
	st.Topic = &name
	if pic.Topics[name] == nil {
		st.ErrorCode = kerr.UnknownTopicOrPartition.Code
	}
	for n, p := range pic.Topics[name] {
		sp := kmsg.NewMetadataResponseTopicPartition()
		sp.Partition, sp.Leader, sp.LeaderEpoch = int32(n), p.Leader, p.LeaderEpoch
		sp.Replicas, sp.ISR = p.Replicas, p.ISR
		if p.Leader < 0 {
			sp.ErrorCode = kerr.LeaderNotAvailable.Code
		}
		st.Partitions = append(st.Partitions, sp)
	}
	return st
}

// The times that are not times. Others are refused: no index of times is kept.
const latest, earliest = -1, -2

func (b *Broker) listOffsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewListOffsetsResponseTopic()
		st.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			sp := kmsg.NewListOffsetsResponseTopicPartition()
			sp.Partition = rp.Partition
			p, err := b.partition(rt.Topic, rp.Partition)
			if err == nil {
				err = p.listOffset(rp, &sp)
			}
			sp.ErrorCode = code(err)
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

func (p *partition) listOffset(req kmsg.ListOffsetsRequestTopicPartition, resp *kmsg.ListOffsetsResponseTopicPartition) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	resp.LeaderEpoch = p.mu.leaderEpoch
	switch req.Timestamp {
	case earliest:
		resp.Offset = p.mu.log.Start()
	case latest:
		resp.Offset = p.mu.high
	default:
		return kerr.UnsupportedForMessageFormat
	}
	return p.leaderLocked(req.CurrentLeaderEpoch)
}
