package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog"
	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
)

const (
	followerPatience = 500 * time.Millisecond // of a fetch that waits at the leader
	followerBackoff  = 20 * time.Millisecond  // after an error: its reason is being settled elsewhere
	followerBytes    = 1 << 20                // per partition and fetch
)

// following is one partition to be copied, under one leader epoch.
type following struct {
	*partition
	epoch int32
}

// follow copies partitions from their leaders, by leader, until the next call, or until
// the broker ends. The end of a follower's connection makes its leader forget the fetch
// that waits there.
func (b *Broker) follow(pic *controller.Picture, parts map[int32][]following) {
	b.applying.unfollow()
	ctx, cancel := context.WithCancel(b.ctx)
	var copying sync.WaitGroup
	for leader, parts := range parts {
		copying.Go(func() { b.copyFrom(ctx, pic.Brokers[leader].String(), parts) })
	}
	b.applying.unfollow = func() { cancel(); copying.Wait() }
}

func (b *Broker) copyFrom(ctx context.Context, leader string, parts []following) {
	client, err := kgo.NewClient(kgo.SeedBrokers(leader), kgo.ClientID("follower"))
	if err != nil {
		panic(err) // the options above are not valid
	}
	defer client.Close()
	for b.gate.Pass(ctx) {
		if err := b.fetchFrom(ctx, client.SeedBrokers()[0], parts); err != nil {
			select {
			case <-time.After(followerBackoff):
			case <-ctx.Done():
			}
		}
		// Whoever is first may fill the response: take turns.
		parts = append(parts[1:], parts[0])
	}
}

// fetchFrom asks a leader once for everything.
func (b *Broker) fetchFrom(ctx context.Context, leader *kgo.Broker, parts []following) (err error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = b.config.ID
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(followerPatience.Milliseconds()), 1, int32(b.config.MaxFetchBytes)
	for _, p := range parts {
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = p.Topic
		rt.Partitions = append(rt.Partitions, p.nextFetch(p.epoch))
		req.Topics = append(req.Topics, rt)
	}
	resp, err := leader.Request(ctx, req)
	if err != nil {
		return err
	}
	if !b.gate.Pass(ctx) {
		return ctx.Err()
	}
	for i, st := range resp.(*kmsg.FetchResponse).Topics { // in the order of the request
		err = errors.Join(err, parts[i].replicate(parts[i].epoch, &st.Partitions[0]))
	}
	return err
}

// nextFetch asks for what this replica does not have.
func (p *partition) nextFetch(epoch int32) kmsg.FetchRequestTopicPartition {
	p.mu.Lock()
	defer p.mu.Unlock()
	req := kmsg.NewFetchRequestTopicPartition()
	req.Partition, req.CurrentLeaderEpoch = p.N, epoch
	req.FetchOffset, req.PartitionMaxBytes = p.mu.log.End(), followerBytes
	return req
}

// replicate takes the leader's answer into this replica's log.
func (p *partition) replicate(epoch int32, resp *kmsg.FetchResponseTopicPartition) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.leaderEpoch != epoch || p.leadsLocked() {
		return kerr.FencedLeaderEpoch
	}
	log := p.mu.log
	switch {
	case resp.ErrorCode == kerr.OffsetOutOfRange.Code:
		// The leader has dropped, by age, what would come next.
		log.Restart(resp.LogStartOffset)
		p.mu.high = resp.LogStartOffset
		return nil
	case resp.ErrorCode != 0:
		return kerr.ErrorForCode(resp.ErrorCode)
	}
	if err := log.Replicate(resp.RecordBatches); err != nil {
		return err
	}
	p.mu.high = max(p.mu.high, min(resp.HighWatermark, log.End()))
	log.Retain(maxLogBytes, p.mu.high)
	return nil
}

// apply makes this broker what the controller's newest picture says it is.
func (b *Broker) apply(now *controller.Picture) {
	b.applying.Lock()
	defer b.applying.Unlock()
	if now.Version <= b.current.Load().Version {
		return
	}
	follow := make(map[int32][]following) // by leader
	for name, topic := range now.Topics {
		for n := range topic {
			state := &topic[n]
			p := b.hold(topicPartition{Topic: name, N: int32(n)}, state)
			if p != nil && state.Leader >= 0 && state.Leader != b.config.ID {
				follow[state.Leader] = append(follow[state.Leader], following{p, state.LeaderEpoch})
			}
		}
	}
	b.current.Store(now)
	b.follow(now, follow)
}

// hold makes a partition of which this broker has a replica what the picture says
// it is; nil: it has none.
func (b *Broker) hold(tp topicPartition, state *controller.Partition) *partition {
	b.mu.Lock()
	p := b.mu.partitions[tp]
	if p == nil && slices.Contains(state.Replicas, b.config.ID) {
		log := b.config.Logs[tp]
		if log == nil {
			log = &commitlog.Log{}
			b.config.Logs[tp] = log
		}
		p = &partition{topicPartition: tp, broker: b}
		p.mu.log, p.mu.high = log, log.Start()
		p.mu.leader, p.mu.leaderEpoch, p.mu.epoch = controller.Nobody, -1, -1
		b.mu.partitions[tp] = p
	}
	b.mu.Unlock()
	if p == nil {
		return nil
	}
	pr := p.apply(state, time.Now())
	if pr.leaderMoved {
		b.dismiss(p)
	}
	b.wake(p, pr)
	return p
}

// dismiss answers everybody who waits at a partition that has moved away: fetches as
// a whole, and what waits to be acknowledged for this partition.
func (b *Broker) dismiss(p *partition) {
	b.fetches.CancelForKey(at(committed, p, 0).Key, kerr.NotLeaderForPartition)
	b.fetches.CancelForKey(at(appended, p, 0).Key, kerr.NotLeaderForPartition)
	b.produces.CheckAndComplete(at(committed, p, 0).Key)
}
