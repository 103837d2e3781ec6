package controller

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/wire"
)

// retry is how long to wait for a broker that does not take its picture.
const retry = 50 * time.Millisecond

// changedLocked lets every broker know. The signal is the deferred kind: the
// lock is held.
func (c *Controller) changedLocked() {
	c.mu.version++
	c.pictures.Signal(struct{}{})
}

// sendPictures sends a broker the newest picture after every change, until it
// is fenced. Changes that come faster than it takes them are left out.
func (c *Controller) sendPictures(ctx context.Context, r *registration) {
	var client *wire.Client
	defer func() {
		if client != nil {
			client.Close()
		}
	}()
	for sent := int64(0); ctx.Err() == nil; {
		_ = c.pictures.Await(ctx, time.Minute, func() bool { return c.version() != sent }, struct{}{})
		picture, version := c.picture(r)
		if version == sent {
			continue
		}
		var err error
		if client == nil {
			client, err = wire.Dial(ctx, r.addr(), "controller")
		}
		if err == nil {
			_, err = client.Do(ctx, picture)
		}
		if err != nil {
			client = nil
			// Nothing makes this ready: it is a pause that ctx and Close end.
			_ = c.pictures.Await(ctx, retry, func() bool { return false }, struct{}{})
			continue
		}
		sent = version
	}
}

func (c *Controller) version() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.version
}

// picture is everything a broker has to know.
func (c *Controller) picture(r *registration) (*kmsg.UpdateMetadataRequest, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	req := kmsg.NewPtrUpdateMetadataRequest()
	req.Version = 7
	req.ControllerID = nobody
	req.BrokerEpoch = r.epoch
	for _, b := range c.mu.brokers {
		endpoint := kmsg.NewUpdateMetadataRequestLiveBrokerEndpoint()
		endpoint.Host, endpoint.Port = b.host, b.port
		live := kmsg.NewUpdateMetadataRequestLiveBroker()
		live.ID = b.id
		setRegisteredEpoch(&live, b.epoch)
		live.Endpoints = append(live.Endpoints, endpoint)
		req.LiveBrokers = append(req.LiveBrokers, live)
	}
	for name, t := range c.mu.topics {
		state := kmsg.NewUpdateMetadataRequestTopicState()
		state.Topic, state.TopicID = name, t.id
		for i, p := range t.partitions {
			ps := kmsg.NewUpdateMetadataRequestTopicPartition()
			ps.Partition = int32(i)
			ps.Leader, ps.LeaderEpoch = p.leader, p.leaderEpoch
			ps.ISR, ps.ZKVersion, ps.Replicas = p.isr, p.epoch, p.replicas
			state.PartitionStates = append(state.PartitionStates, ps)
		}
		req.TopicStates = append(req.TopicStates, state)
	}
	return req, c.mu.version
}
