// Package cluster runs a controller and several brokers in one process, each on
// a loopback port of its own, and stops, kills and restarts them.
package cluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/delayedop/purgatory/examples/broker/broker"
	"github.com/delayedop/purgatory/examples/broker/controller"
	"github.com/delayedop/purgatory/purgatory"
)

// Config is how a cluster is started.
type Config struct {
	Brokers        int           // how many; their ids are 1, 2, …
	Port           int           // of the first broker, the others follow; 0 for any
	ControllerPort int           // 0 for any
	SessionTimeout time.Duration // of a broker; default 6 s
	Broker         broker.Config // what all have in common
}

// Cluster is a running cluster. Safe for concurrent use.
type Cluster struct {
	config     Config
	controller *controller.Controller

	mu struct {
		sync.Mutex
		seats []*seat
		past  map[string]purgatory.Stats // of the brokers that have ended, added up
	}
}

// seat is a broker's place: its address and disk stay while the broker comes
// and goes.
type seat struct {
	id      int32
	addr    string
	disk    *broker.Disk
	running *broker.Broker // nil while it is down
}

const loopback = "127.0.0.1"

// Start starts a cluster and returns when every broker is part of it.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if config.SessionTimeout == 0 {
		config.SessionTimeout = 6 * time.Second
	}
	if config.Broker.Purgatory == nil {
		config.Broker.Purgatory = func(string) []purgatory.Option { return nil }
	}
	c := &Cluster{config: config}
	c.mu.past = make(map[string]purgatory.Stats)
	var err error
	c.controller, err = controller.Start(controller.Config{
		Addr:           net.JoinHostPort(loopback, strconv.Itoa(config.ControllerPort)),
		SessionTimeout: config.SessionTimeout,
		Purgatory:      config.Broker.Purgatory,
		Logger:         config.Broker.Logger,
	})
	if err != nil {
		return nil, err
	}
	for i := range config.Brokers {
		port := 0
		if config.Port > 0 {
			port = config.Port + i
		}
		c.mu.seats = append(c.mu.seats, &seat{id: int32(i + 1), addr: net.JoinHostPort(loopback, strconv.Itoa(port)), disk: &broker.Disk{}})
		if err := c.Restart(ctx, int32(i+1)); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Controller is where further brokers find the controller.
func (c *Cluster) Controller() string { return c.controller.Addr() }

// Addrs are the brokers' addresses, also of those that are down.
func (c *Cluster) Addrs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var addrs []string
	for _, s := range c.mu.seats {
		addrs = append(addrs, s.addr)
	}
	return addrs
}

// Broker is a running broker, nil if it is down or there is none of that id.
func (c *Cluster) Broker(id int32) *broker.Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.seatLocked(id); s != nil {
		return s.running
	}
	return nil
}

func (c *Cluster) seatLocked(id int32) *seat {
	if id < 1 || int(id) > len(c.mu.seats) {
		return nil
	}
	return c.mu.seats[id-1]
}

// Stop takes a broker out in order, and returns when it is gone.
func (c *Cluster) Stop(id int32) error { return c.end(id, (*broker.Broker).Stop) }

// Kill takes a broker out as a crash would, and returns when it is gone.
func (c *Cluster) Kill(id int32) error { return c.end(id, (*broker.Broker).Kill) }

func (c *Cluster) end(id int32, how func(*broker.Broker)) error {
	c.mu.Lock()
	s := c.seatLocked(id)
	if s == nil || s.running == nil {
		c.mu.Unlock()
		return fmt.Errorf("cluster: broker %d is not running", id)
	}
	b := s.running
	s.running = nil
	c.mu.Unlock()
	how(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, stats := range b.Stats() {
		c.mu.past[name] = add(c.mu.past[name], stats)
	}
	return nil
}

// Wipe empties the disk of a broker that is down.
func (c *Cluster) Wipe(id int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.seatLocked(id)
	if s == nil || s.running != nil {
		return fmt.Errorf("cluster: broker %d is not down", id)
	}
	s.disk = &broker.Disk{}
	return nil
}

// Restart starts a broker that is down, on its old address and with its disk,
// and returns when it has seen the cluster.
func (c *Cluster) Restart(ctx context.Context, id int32) error {
	c.mu.Lock()
	s := c.seatLocked(id)
	if s == nil || s.running != nil {
		c.mu.Unlock()
		return fmt.Errorf("cluster: broker %d is not down", id)
	}
	config := c.config.Broker
	config.ID, config.Addr, config.Disk, config.Controller = id, s.addr, s.disk, c.controller.Addr()
	c.mu.Unlock()
	b, err := broker.Start(ctx, config)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.running, s.addr = b, b.Addr()
	return nil
}

// Close kills everything.
func (c *Cluster) Close() {
	for id := int32(1); id <= int32(c.config.Brokers); id++ {
		_ = c.Kill(id) // unless it is down
	}
	c.controller.Close()
}

// Stats adds up, by purgatory, what all brokers did, those that have ended
// included.
func (c *Cluster) Stats() map[string]purgatory.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]purgatory.Stats)
	for name, stats := range c.mu.past {
		all[name] = stats
	}
	for _, s := range c.mu.seats {
		if s.running != nil {
			for name, stats := range s.running.Stats() {
				all[name] = add(all[name], stats)
			}
		}
	}
	all["broker session"] = c.controller.Sessions()
	return all
}

// add adds up what a table shows of two.
func add(a, b purgatory.Stats) purgatory.Stats {
	a.Pending += b.Pending
	a.Watched += b.Watched
	a.Accepted += b.Accepted
	a.Satisfied += b.Satisfied
	a.Forced += b.Forced
	a.Expired += b.Expired
	a.Cancelled += b.Cancelled
	a.Closed += b.Closed
	a.Checks += b.Checks
	a.WastedChecks += b.WastedChecks
	a.Panics += b.Panics
	return a
}
