package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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
		copying.Go(func() { b.copyFrom(ctx, pic.Brokers[leader].Addr(), parts) })
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
	req.MaxWaitMillis, req.MinBytes = int32(followerPatience.Milliseconds()), 1
	req.MaxBytes = int32(b.config.MaxFetchBytes)
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
	req.Partition = p.N
	req.CurrentLeaderEpoch = epoch
	req.FetchOffset = p.mu.log.End()
	req.PartitionMaxBytes = followerBytes
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
	log.Retain(p.broker.share(), p.mu.high)
	return nil
}
