package broker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const clusterID = "purgatory-example"

// creationPatience is how long a client that asks for a topic that has to be
// created first waits for it.
const creationPatience = 5 * time.Second

// metadata says who leads what. Topics that do not exist yet are created where
// the client allows it.
func (b *Broker) metadata(req *kmsg.MetadataRequest, reply func(kmsg.Response)) {
	var missing []string
	if req.AllowAutoTopicCreation || req.Version < 4 {
		topics := b.current.Load().topics
		for _, rt := range req.Topics {
			if rt.Topic != nil && *rt.Topic != "" && topics[*rt.Topic] == nil {
				missing = append(missing, *rt.Topic)
			}
		}
	}
	if len(missing) == 0 {
		reply(b.describe(req))
		return
	}
	b.backgroundReply(reply, func(ctx context.Context) kmsg.Response {
		b.createMissing(ctx, missing)
		return b.describe(req)
	}, func() kmsg.Response { return b.describe(req) })
}

// describe answers from the picture.
func (b *Broker) describe(req *kmsg.MetadataRequest) kmsg.Response {
	pic := b.current.Load()
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.ClusterID = kmsg.StringPtr(clusterID)
	resp.ControllerID = b.config.ID // every broker passes on what is for the controller
	for _, id := range slices.Sorted(maps.Keys(pic.brokers)) {
		sb := kmsg.NewMetadataResponseBroker()
		sb.NodeID, sb.Host, sb.Port = id, pic.brokers[id].host, pic.brokers[id].port
		resp.Brokers = append(resp.Brokers, sb)
	}
	resp.Topics = []kmsg.MetadataResponseTopic{}
	if req.Topics == nil || (req.Version == 0 && len(req.Topics) == 0) {
		for _, name := range slices.Sorted(maps.Keys(pic.topics)) {
			resp.Topics = append(resp.Topics, pic.topics[name].describe(pic))
		}
	}
	for _, rt := range req.Topics {
		t, missing := pic.byID[rt.TopicID], kerr.UnknownTopicID
		if rt.Topic != nil {
			t, missing = pic.topics[*rt.Topic], kerr.UnknownTopicOrPartition
		}
		if t != nil {
			resp.Topics = append(resp.Topics, t.describe(pic))
			continue
		}
		st := kmsg.NewMetadataResponseTopic()
		st.ErrorCode, st.Topic, st.TopicID = missing.Code, rt.Topic, rt.TopicID
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

func (t *topic) describe(pic *picture) kmsg.MetadataResponseTopic {
	st := kmsg.NewMetadataResponseTopic()
	st.Topic, st.TopicID, st.IsInternal = kmsg.StringPtr(t.name), t.id, t.name == offsetsTopic
	for _, p := range t.partitions {
		sp := kmsg.NewMetadataResponseTopicPartition()
		sp.Partition, sp.Leader, sp.LeaderEpoch = p.Partition, p.Leader, p.LeaderEpoch
		sp.Replicas, sp.ISR = p.Replicas, p.ISR
		sp.OfflineReplicas = slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool {
			_, alive := pic.brokers[id]
			return alive
		})
		if p.Leader < 0 {
			sp.ErrorCode = kerr.LeaderNotAvailable.Code
		}
		st.Partitions = append(st.Partitions, sp)
	}
	return st
}
