package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
)

// topic is the one topic whose partitions the cluster holds.
const topic = "orders"

// cluster is the brokers and what decides among them. Replication goes over TCP; decisions about leadership are calls.
type cluster struct {
	controller *controller
	partitions []topicPartition
	brokers    []*broker
	started    time.Time
	events     *console
}

// startCluster starts as many brokers as there are replicas, each with a replica of every partition. The page shows what waits.
func startCluster(cfg config, events *console, page *debugserver.Server) (*cluster, error) {
	c := &cluster{controller: newController(cfg.partitions, cfg.replicas), started: time.Now(), events: events}
	for i := range cfg.partitions {
		c.partitions = append(c.partitions, topicPartition{topic, i})
	}
	everyone := make([]int, cfg.replicas)
	for id := range everyone {
		everyone[id] = id
	}
	for id := range everyone {
		replicas := make(map[topicPartition]*replica, cfg.partitions)
		for _, tp := range c.partitions {
			replicas[tp] = newReplica(tp, id, everyone, cfg.minInsync, c.controller)
			replicas[tp].assume(c.controller.assigned(tp), c.started)
		}
		b, err := newBroker(id, replicas, cfg.lagTime, events, page)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("broker %d: %w", id, err), c.stop(context.Background()))
		}
		c.brokers = append(c.brokers, b)
	}
	for _, p := range c.purgatories() {
		page.Add(p)
	}
	for _, b := range c.brokers {
		b.start(c.fetchersFor(b, cfg))
	}
	return c, nil
}

func (c *cluster) fetchersFor(b *broker, cfg config) []*fetcher {
	var all []*fetcher
	for _, leader := range c.brokers {
		if leader == b {
			continue
		}
		f := newFetcher(b.id, leader.id, leader.address(), b.replicas)
		f.maxWait = cfg.fetchWait
		f.slow = func() time.Duration { return cfg.slow.delay(b.id, time.Since(c.started)) }
		all = append(all, f)
	}
	return all
}

func (c *cluster) addresses() []string {
	all := make([]string, len(c.brokers))
	for id, b := range c.brokers {
		all[id] = b.address()
	}
	return all
}

// purgatories lists every purgatory of the cluster: whoever wants to look into them starts here.
func (c *cluster) purgatories() []*partitionPurgatory {
	var all []*partitionPurgatory
	for _, b := range c.brokers {
		all = append(all, b.produces)
	}
	for _, b := range c.brokers {
		all = append(all, b.fetches)
	}
	return all
}

// waiting is how many produces wait now.
func (c *cluster) waiting() int {
	n := 0
	for _, b := range c.brokers {
		n += b.produces.NumDelayed()
	}
	return n
}

// lateness collects, from all brokers, how far past their deadline timeouts were answered.
func (c *cluster) lateness() *durations {
	all := new(durations)
	for _, b := range c.brokers {
		for _, d := range b.lateness.sorted() {
			all.add(d)
		}
	}
	return all
}

// stepDown makes a broker give up every partition it leads: what waits there is answered, then an in-sync follower leads.
func (c *cluster) stepDown(id int) {
	moved, cancelled := 0, 0
	for _, tp := range c.partitions {
		successor, n, ok := c.brokers[id].resign(tp)
		if !ok {
			continue // not its leader, or nobody could follow it
		}
		cancelled += n
		a, err := c.controller.elect(tp, successor)
		if err != nil {
			// The in-sync set cannot have changed: only its leader changes it, and that one has just resigned.
			panic(err)
		}
		for _, b := range c.brokers {
			b.assume(tp, a)
		}
		moved++
	}
	if moved == 0 {
		c.events.eventf("broker %d stays leader: there is nobody in sync who could follow it", id)
		return
	}
	c.events.eventf("broker %d stepped down from %d partitions and answered %d waiting produces \"not leader\"", id, moved, cancelled)
}

// stop ends every broker. When it returns nothing of the cluster runs any more; the logs can still be read.
func (c *cluster) stop(ctx context.Context) error {
	var errs []error
	for _, b := range c.brokers {
		errs = append(errs, b.stop(ctx))
	}
	return errors.Join(errs...)
}
