package broker

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
	"github.com/delayedop/purgatory/examples/heavy/broker/wire"
)

const clusterID = "purgatory-example"

// creationPatience is how long a client that asks for a topic that has to be
// created first waits for it.
const creationPatience = 5 * time.Second

// metadata says who leads what. Topics that do not exist yet are created where
// the client allows it. What cannot be created stays missing.
func (b *Broker) metadata(c *wire.Conn, req *kmsg.MetadataRequest, reply func(kmsg.Response)) {
	created := false
	if req.AllowAutoTopicCreation || req.Version < 4 {
		topics := b.current.Load().Topics
		for _, rt := range req.Topics {
			if rt.Topic != nil && topics[*rt.Topic] == nil {
				_, _ = b.controller.Create(*rt.Topic, controller.Default, controller.Default, false)
				created = true
			}
		}
	}
	if !created {
		reply(b.describe(req))
		return
	}
	b.whenApplied(c, creationPatience, func(bool) { reply(b.describe(req)) })
}

// describe answers from the picture.
func (b *Broker) describe(req *kmsg.MetadataRequest) kmsg.Response {
	pic := b.current.Load()
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.ClusterID = kmsg.StringPtr(clusterID)
	resp.ControllerID = b.config.ID // every broker asks the controller for its clients
	for _, id := range slices.Sorted(maps.Keys(pic.Brokers)) {
		sb := kmsg.NewMetadataResponseBroker()
		sb.NodeID, sb.Host, sb.Port = id, pic.Brokers[id].Host, pic.Brokers[id].Port
		resp.Brokers = append(resp.Brokers, sb)
	}
	resp.Topics = []kmsg.MetadataResponseTopic{}
	if req.Topics == nil || (req.Version == 0 && len(req.Topics) == 0) {
		for _, name := range slices.Sorted(maps.Keys(pic.Topics)) {
			resp.Topics = append(resp.Topics, describeTopic(pic.Topics[name], pic))
		}
	}
	for _, rt := range req.Topics {
		t, missing := pic.ByID[rt.TopicID], kerr.UnknownTopicID
		if rt.Topic != nil {
			t, missing = pic.Topics[*rt.Topic], kerr.UnknownTopicOrPartition
		}
		if t != nil {
			resp.Topics = append(resp.Topics, describeTopic(t, pic))
			continue
		}
		st := kmsg.NewMetadataResponseTopic()
		st.ErrorCode, st.Topic, st.TopicID = missing.Code, rt.Topic, rt.TopicID
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

func describeTopic(t *controller.Topic, pic *controller.Picture) kmsg.MetadataResponseTopic {
	st := kmsg.NewMetadataResponseTopic()
	st.Topic, st.TopicID = &t.Name, t.ID
	for n, p := range t.Partitions {
		sp := kmsg.NewMetadataResponseTopicPartition()
		sp.Partition, sp.Leader, sp.LeaderEpoch = int32(n), p.Leader, p.LeaderEpoch
		sp.Replicas, sp.ISR = p.Replicas, p.ISR
		sp.OfflineReplicas = slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool {
			_, alive := pic.Brokers[id]
			return alive
		})
		if p.Leader < 0 {
			sp.ErrorCode = kerr.LeaderNotAvailable.Code
		}
		st.Partitions = append(st.Partitions, sp)
	}
	return st
}
