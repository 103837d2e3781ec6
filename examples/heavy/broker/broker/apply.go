package broker

import (
	"context"
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
	for _, t := range now.Topics {
		for n := range t.Partitions {
			state := &t.Partitions[n]
			if p := b.hold(t, int32(n), state); p != nil && state.Leader >= 0 && state.Leader != b.config.ID {
				follow[state.Leader] = append(follow[state.Leader], following{p, state.LeaderEpoch})
			}
		}
	}
	for _, parts := range follow { // in an order of their own, for the fetchers to be compared
		slices.SortFunc(parts, func(a, b following) int { return a.compare(b.topicPartition) })
	}
	b.current.Store(now)
	b.groups.Resign(func(group string) bool { return now.Coordinator(group) != b.config.ID })
	b.setFetchers(now, follow)
	b.pictures.CheckAndCompleteUpTo(waitKey{event: applied}, now.Version)
}

// hold makes a partition of which this broker has a replica what the picture says
// it is; nil: it has none.
func (b *Broker) hold(t *controller.Topic, n int32, state *controller.Partition) *partition {
	tp := topicPartition{t.ID, n}
	b.mu.Lock()
	p := b.mu.partitions[tp]
	if p == nil && contains(state.Replicas, b.config.ID) {
		log := b.config.Logs[tp]
		if log == nil {
			log = &commitlog.Log{}
			b.config.Logs[tp] = log
		}
		p = newPartition(b, tp, t.Name, log)
		b.mu.partitions[tp] = p
	}
	b.mu.Unlock()
	if p == nil {
		return nil
	}
	c := p.apply(state, time.Now())
	if c.moved {
		b.dismiss(p)
	}
	b.wake(p, c.progress)
	return p
}

// dismiss answers everybody who waits at a partition that has moved away: fetches as
// a whole, and what waits to be acknowledged for this partition.
func (b *Broker) dismiss(p *partition) {
	b.fetches.CancelForKey(at(committed, p, 0).Key, kerr.NotLeaderForPartition)
	b.fetches.CancelForKey(at(appended, p, 0).Key, kerr.NotLeaderForPartition)
	b.produces.CheckAndComplete(at(committed, p, 0).Key)
}

// setFetchers follows every leader that has something to be followed. Old
// fetchers end before new ones begin, so that a partition has one at a time.
func (b *Broker) setFetchers(pic *controller.Picture, follow map[int32][]following) {
	kept := make(map[int32]*fetcher)
	for leader, f := range b.applying.fetchers {
		if parts := follow[leader]; f.same(pic.Brokers[leader].Addr(), parts) {
			kept[leader] = f
			delete(follow, leader)
		} else {
			f.stop()
		}
	}
	for leader, parts := range follow {
		ctx, cancel := context.WithCancel(b.ctx)
		f := &fetcher{broker: b, leader: pic.Brokers[leader].Addr(), parts: parts, cancel: cancel, done: make(chan struct{})}
		kept[leader] = f
		go f.run(ctx)
	}
	b.applying.fetchers = kept
}
