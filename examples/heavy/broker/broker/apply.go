package broker

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog"
	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
)

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
		p = newPartition(b, tp, log)
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
