package broker

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/commitlog"
)

// deleteTopics passes the request on to the controller and waits until the topics
// are gone from what this broker sees.
func (b *Broker) deleteTopics(req *kmsg.DeleteTopicsRequest, reply func(kmsg.Response)) {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	timeout := b.patience(req.TimeoutMillis)
	for _, name := range req.TopicNames { // before version 6
		req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &name})
	}
	ask := kmsg.NewPtrDeleteTopicsRequest()
	ask.Version = 6
	for _, rt := range req.Topics {
		if rt.Topic != nil && *rt.Topic == offsetsTopic {
			st := kmsg.NewDeleteTopicsResponseTopic()
			st.Topic, st.ErrorCode = rt.Topic, kerr.InvalidTopicException.Code
			resp.Topics = append(resp.Topics, st)
		} else {
			ask.Topics = append(ask.Topics, rt)
		}
	}
	refuse := func() kmsg.Response {
		for _, rt := range ask.Topics {
			st := kmsg.NewDeleteTopicsResponseTopic()
			st.Topic, st.TopicID, st.ErrorCode = rt.Topic, rt.TopicID, kerr.NotController.Code
			resp.Topics = append(resp.Topics, st)
		}
		return resp
	}
	b.backgroundReply(reply, func(ctx context.Context) kmsg.Response {
		answer, err := b.ask(ctx, ask)
		if err != nil {
			return refuse()
		}
		for _, st := range answer.(*kmsg.DeleteTopicsResponse).Topics {
			if st.ErrorCode == 0 {
				gone := func() bool { return b.current.Load().byID[st.TopicID] == nil }
				if err := b.arrivals.Await(ctx, timeout, gone, *st.Topic); err != nil {
					st.ErrorCode = kerr.RequestTimedOut.Code
				}
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp
	}, refuse)
}

// forget gives up the replicas of topics that a picture does not have: with their
// records, and those who wait there.
func (b *Broker) forget(pic *picture) {
	var gone []*partition
	b.mu.Lock()
	for tp, p := range b.mu.partitions {
		if pic.byID[tp.topic] == nil {
			gone = append(gone, p)
			delete(b.mu.partitions, tp)
		}
	}
	b.mu.Unlock()
	for _, p := range gone {
		p.retire()
		b.memory.partitions.Add(-1)
		b.dismiss(p)
	}
	b.config.Disk.forget(func(tp topicPartition) bool { return pic.byID[tp.topic] == nil })
}

// retire ends a replica. Requests may still hold it.
func (p *partition) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.leader, p.mu.leaderEpoch = -1, p.mu.leaderEpoch+1
	p.mu.log = &commitlog.Log{}
	p.mu.high = 0
	p.settleLocked()
}

// vanished are the topics of an older picture that a newer one does not have.
func (pic *picture) vanished(since *picture) []string {
	var names []string
	for name, t := range pic.topics {
		if since.byID[t.id] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
