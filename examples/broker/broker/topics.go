package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// createTopics passes the request on to the controller and waits until this
// broker has seen what came of it.
func (b *Broker) createTopics(req *kmsg.CreateTopicsRequest, reply func(kmsg.Response)) {
	version, timeout := req.Version, b.patience(req.TimeoutMillis)
	refuse := func() kmsg.Response {
		resp := kmsg.NewPtrCreateTopicsResponse()
		resp.Version = version
		for _, rt := range req.Topics {
			st := kmsg.NewCreateTopicsResponseTopic()
			st.Topic, st.ErrorCode = rt.Topic, kerr.NotController.Code
			resp.Topics = append(resp.Topics, st)
		}
		return resp
	}
	b.backgroundReply(reply, func(ctx context.Context) kmsg.Response {
		resp, err := b.create(ctx, req, timeout)
		if err != nil {
			return refuse()
		}
		resp.Version = version
		return resp
	}, refuse)
}

// create asks the controller and waits until each new topic is in the picture.
// One that has not come within the timeout exists and is late, which the
// protocol calls timed out.
func (b *Broker) create(ctx context.Context, req *kmsg.CreateTopicsRequest, timeout time.Duration) (*kmsg.CreateTopicsResponse, error) {
	req.Version = 7 // the one in which the controller takes it
	answer, err := b.ask(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.CreateTopicsResponse)
	for i := range resp.Topics {
		st := &resp.Topics[i]
		if st.ErrorCode != 0 || req.ValidateOnly {
			continue
		}
		if err := b.arrivals.Await(ctx, timeout, func() bool { return b.knows(st.Topic) }, st.Topic); err != nil {
			st.ErrorCode = kerr.RequestTimedOut.Code
		}
	}
	return resp, nil
}

// knows says whether a topic is there, and its partitions can be asked for.
func (b *Broker) knows(topic string) bool { return b.applied.Load().topics[topic] != nil }

// createMissing creates topics as their first user finds them missing. Who else
// creates them at the same time does not matter; what cannot be created stays
// missing, and is answered as such.
func (b *Broker) createMissing(ctx context.Context, names []string) {
	req := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range names {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, -1, -1
		if name == offsetsTopic {
			rt.NumPartitions = b.config.OffsetsPartitions
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := b.create(ctx, req, creationPatience)
	if err != nil {
		return
	}
	for _, st := range resp.Topics {
		if st.ErrorCode == kerr.TopicAlreadyExists.Code {
			_ = b.arrivals.Await(ctx, creationPatience, func() bool { return b.knows(st.Topic) }, st.Topic)
		}
	}
}

// backgroundReply answers from a goroutine of its own, for answers that need
// the controller's; or with refuse when the broker is ending.
func (b *Broker) backgroundReply(reply func(kmsg.Response), answer func(context.Context) kmsg.Response, refuse func() kmsg.Response) {
	if !b.background(func(ctx context.Context) { reply(answer(ctx)) }) {
		reply(refuse())
	}
}
