package broker

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// noteFetchLocked takes a follower's fetch from offset as word that it has
// everything below. The follower is who it says it is and agrees with the
// leader's log so far.
func (p *partition) noteFetchLocked(f *follower, brokerEpoch, start, offset int64, now time.Time) progress {
	end := p.mu.log.End()
	switch {
	case offset >= end:
		f.caughtUp = now
	case offset >= f.lastEnd:
		f.caughtUp = f.lastFetch // it has all there was then
	}
	f.brokerEpoch, f.start, f.end, f.lastFetch, f.lastEnd = brokerEpoch, start, offset, now, end
	return p.advanceLocked()
}

// propose looks for an in-sync set better than the present one: without those
// that lag, with those that have caught up. It returns nil when there is
// nothing to ask the controller, else what to ask; settle must follow.
func (p *partition) propose(now time.Time) *kmsg.AlterPartitionRequestTopicPartition {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.leader != p.broker || p.mu.proposing {
		return nil
	}
	if p.mu.proposal == nil { // else its answer was lost: ask the same again
		set := []int32{p.broker}
		for id, f := range p.mu.followers {
			if p.inSyncLocked(id, f, now) {
				set = append(set, id)
			}
		}
		slices.Sort(set)
		if slices.Equal(set, slices.Sorted(slices.Values(p.mu.isr))) {
			return nil
		}
		p.mu.proposal = set
	}
	p.mu.proposing = true
	req := kmsg.NewAlterPartitionRequestTopicPartition()
	req.Partition, req.LeaderEpoch, req.PartitionEpoch = p.n, p.mu.leaderEpoch, p.mu.epoch
	for _, id := range p.mu.proposal {
		member := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		member.BrokerID, member.BrokerEpoch = id, -1
		if f := p.mu.followers[id]; f != nil {
			member.BrokerEpoch = f.brokerEpoch
		}
		req.NewEpochISR = append(req.NewEpochISR, member)
	}
	return &req
}

// inSyncLocked: a member stays until it has lagged too long; another comes in
// with all that is committed and all that this leader began with.
func (p *partition) inSyncLocked(id int32, f *follower, now time.Time) bool {
	if slices.Contains(p.mu.isr, id) {
		return f.end == p.mu.log.End() || now.Sub(f.caughtUp) <= p.config.MaxLag
	}
	return f.end >= p.mu.high && f.end >= p.mu.begin
}

// setInSyncLocked takes what the controller has decided. Of a follower that has
// fallen out, what was known is old: it has to fetch before it can come back.
func (p *partition) setInSyncLocked(isr []int32, epoch int32) {
	p.mu.isr, p.mu.epoch, p.mu.proposal = isr, epoch, nil
	for id, f := range p.mu.followers {
		if !slices.Contains(isr, id) {
			f.end = -1
		}
	}
}

// settle takes the controller's answer. Only a plain no closes the proposal.
// Without an answer it may have been heard; and when the controller has moved
// on, it may be this very proposal, heard before, that moved it. The picture
// that says so is under way.
func (p *partition) settle(answer *kmsg.AlterPartitionResponseTopicPartition) progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.proposing = false
	if answer == nil {
		return progress{}
	}
	switch answer.ErrorCode {
	case 0:
	case kerr.InvalidUpdateVersion.Code, kerr.FencedLeaderEpoch.Code:
		return progress{}
	default:
		p.mu.proposal = nil
		return progress{}
	}
	if answer.PartitionEpoch > p.mu.epoch && answer.LeaderEpoch == p.mu.leaderEpoch {
		p.setInSyncLocked(answer.ISR, answer.PartitionEpoch)
	}
	if p.mu.leader != p.broker {
		return progress{}
	}
	return p.advanceLocked()
}

// watchLag proposes, twice per maximum lag, what no fetch would: to go on
// without a follower that is not coming any more.
func (b *Broker) watchLag(ctx context.Context) {
	for b.pause(ctx, b.config.MaxLag/2) {
		for _, p := range b.partitionsCopy() {
			b.proposeInSync(p)
		}
	}
}

// proposeInSync asks the controller, on a goroutine of its own, if there is
// something to ask.
func (b *Broker) proposeInSync(p *partition) {
	req := p.propose(time.Now())
	if req == nil {
		return
	}
	_ = b.background(func(ctx context.Context) { // an ended broker leads nothing
		b.wake(p, p.settle(b.alterPartition(ctx, p, req)))
	})
}

func (b *Broker) alterPartition(ctx context.Context, p *partition, part *kmsg.AlterPartitionRequestTopicPartition) *kmsg.AlterPartitionResponseTopicPartition {
	topic := kmsg.NewAlterPartitionRequestTopic()
	topic.TopicID = p.topic
	topic.Partitions = append(topic.Partitions, *part)
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version = 3
	req.BrokerID, req.BrokerEpoch = b.config.ID, b.epoch.Load()
	req.Topics = append(req.Topics, topic)
	resp, err := b.ask(ctx, req)
	if err != nil {
		return nil
	}
	answer := resp.(*kmsg.AlterPartitionResponse)
	if answer.ErrorCode != 0 || len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return nil // refused as a whole: this broker is not who it was
	}
	return &answer.Topics[0].Partitions[0]
}
