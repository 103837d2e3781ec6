package broker

import (
	"context"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/controller"
)

// picture is the cluster as the controller last described it. It is never
// changed, only replaced.
type picture struct {
	brokers map[int32]endpoint
	epochs  map[int32]int64 // under which the brokers are registered
	topics  map[string]*topic
	byID    map[[16]byte]*topic
}

type endpoint struct {
	host string
	port int32
}

func (e endpoint) addr() string { return net.JoinHostPort(e.host, strconv.Itoa(int(e.port))) }

type topic struct {
	name       string
	id         [16]byte
	partitions []kmsg.UpdateMetadataRequestTopicPartition
}

func newPicture(req *kmsg.UpdateMetadataRequest) *picture {
	pic := &picture{
		brokers: make(map[int32]endpoint),
		epochs:  make(map[int32]int64),
		topics:  make(map[string]*topic),
		byID:    make(map[[16]byte]*topic),
	}
	for _, live := range req.LiveBrokers {
		if epoch, ok := controller.RegisteredEpoch(live); ok {
			pic.epochs[live.ID] = epoch
		}
		if len(live.Endpoints) > 0 {
			pic.brokers[live.ID] = endpoint{live.Endpoints[0].Host, live.Endpoints[0].Port}
		}
	}
	for _, state := range req.TopicStates {
		t := &topic{name: state.Topic, id: state.TopicID, partitions: state.PartitionStates}
		pic.topics[t.name] = t
		pic.byID[t.id] = t
	}
	return pic
}

// registered says whether the cluster has been seen with this broker in it.
func (b *Broker) registered() bool {
	_, ok := b.applied.Load().brokers[b.config.ID]
	return ok
}

// updateMetadata takes a new picture from the controller, who is known by
// knowing the epoch that it gave this broker.
func (b *Broker) updateMetadata(req *kmsg.UpdateMetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.UpdateMetadataResponse)
	b.applying.Lock()
	defer b.applying.Unlock()
	if req.BrokerEpoch != b.epoch.Load() {
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return resp
	}
	old, now := b.current.Load(), newPicture(req)
	b.current.Store(now)
	follow := make(map[int32][]following)
	for _, t := range now.topics {
		for i := range t.partitions {
			state := &t.partitions[i]
			if slices.Contains(state.Replicas, b.config.ID) {
				p := b.hold(now, t, state)
				if _, alive := now.brokers[state.Leader]; alive && state.Leader != b.config.ID {
					follow[state.Leader] = append(follow[state.Leader], following{p, state.LeaderEpoch})
				}
			}
		}
	}
	for _, parts := range follow {
		slices.SortFunc(parts, func(x, y following) int { return x.compare(y.topicPartition) })
	}
	b.forget(now)
	for _, p := range b.partitionsCopy() {
		p.shrink()
	}
	b.setFetchers(now, follow)
	b.applied.Store(now)
	for _, name := range old.vanished(now) {
		b.arrivals.CheckAndComplete(name)
	}
	for name := range now.topics {
		if old.topics[name] == nil {
			b.arrivals.CheckAndComplete(name)
		}
	}
	b.arrivals.CheckAndComplete(anyPicture) // Start waits for the picture as a whole
	return resp
}

// hold makes a partition of which this broker has a replica what the picture
// says it is.
func (b *Broker) hold(pic *picture, t *topic, state *kmsg.UpdateMetadataRequestTopicPartition) *partition {
	tp := topicPartition{t.id, state.Partition}
	b.mu.Lock()
	p := b.mu.partitions[tp]
	if p == nil {
		p = &partition{topicPartition: tp, name: t.name, broker: b.config.ID, config: &b.config, memory: b.memory}
		p.mu.log = b.config.Disk.log(tp)
		p.mu.high = p.mu.log.Start()
		p.mu.leader, p.mu.leaderEpoch, p.mu.epoch = -1, -1, -1
		p.settleLocked() // nobody else has it yet
		b.mu.partitions[tp] = p
		b.memory.partitions.Add(1)
	}
	b.mu.Unlock()
	c := p.apply(state, pic.epochs, time.Now())
	if c.moved {
		b.dismiss(p)
		if t.name == offsetsTopic {
			b.resign(p.n)
			if c.leads {
				b.coordinate(p)
			}
		}
	}
	b.wake(p, c.progress)
	return p
}

// setFetchers follows every leader that has something to be followed. Old
// fetchers end before new ones begin, so that a partition has one at a time.
func (b *Broker) setFetchers(pic *picture, follow map[int32][]following) {
	b.mu.Lock()
	ended := b.mu.ended
	b.mu.Unlock()
	if ended {
		return
	}
	kept := make(map[int32]*fetcher)
	for leader, f := range b.mu.fetchers {
		if parts := follow[leader]; f.same(pic.brokers[leader], parts) {
			kept[leader] = f
			delete(follow, leader)
		} else {
			f.stop()
		}
	}
	for leader, parts := range follow {
		ctx, cancel := context.WithCancel(b.ctx)
		f := &fetcher{broker: b, leader: pic.brokers[leader], parts: parts, cancel: cancel, done: make(chan struct{})}
		kept[leader] = f
		go f.run(ctx)
	}
	b.mu.fetchers = kept
}
