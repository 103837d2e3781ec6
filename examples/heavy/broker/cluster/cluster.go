// Package cluster runs a controller and several brokers in one process, each on a
// loopback port of its own, and stops, kills, freezes and restarts them.
package cluster

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/broker/broker"
	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
)

// Config is how a cluster is started.
type Config struct {
	Brokers        int           // how many; their ids are 1, 2, …
	Port           int           // of the first broker, the others follow; 0 for any
	SessionTimeout time.Duration // of a broker; default 3 s
	Logger         *slog.Logger  // of the controller; nil for none
	Broker         broker.Config // what all have in common
}

// Cluster is a running cluster. Safe for concurrent use.
type Cluster struct {
	config     Config
	controller *controller.Controller

	mu struct {
		sync.Mutex
		seats []*seat
	}
}

// seat is a broker's place: its address and its logs stay while the broker comes
// and goes.
type seat struct {
	addr    string
	logs    broker.Logs
	running *broker.Broker // nil while it is down
}

// Start starts a cluster and returns when every broker is part of it.
func Start(config Config) (*Cluster, error) {
	config.SessionTimeout = cmp.Or(config.SessionTimeout, 3*time.Second)
	c := &Cluster{config: config}
	var err error
	if c.controller, err = controller.New(config.SessionTimeout, cmp.Or(config.Logger, slog.New(slog.DiscardHandler)), config.Broker.Page.Options()...); err != nil {
		return nil, err
	}
	for i := range config.Brokers {
		port := 0
		if config.Port > 0 {
			port = config.Port + i
		}
		c.mu.seats = append(c.mu.seats, &seat{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), logs: make(broker.Logs)})
		if err := c.Restart(i + 1); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Addrs are the brokers' addresses, also of those that are down.
func (c *Cluster) Addrs() (addrs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.mu.seats {
		addrs = append(addrs, s.addr)
	}
	return addrs
}

// Broker is a running broker, nil if it is down or there is none of that id.
func (c *Cluster) Broker(id int) *broker.Broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id < 1 || id > len(c.mu.seats) {
		return nil
	}
	return c.mu.seats[id-1].running
}

// Stop takes a broker out in order, and returns when it is gone.
func (c *Cluster) Stop(id int) error { return c.end(id, (*broker.Broker).Stop) }

// Kill takes a broker out as a crash would, and returns when it is gone.
func (c *Cluster) Kill(id int) error { return c.end(id, (*broker.Broker).Kill) }

// Freeze stops a broker in the middle of whatever it does, until Thaw.
func (c *Cluster) Freeze(id int) error { return c.with(id, (*broker.Broker).Freeze) }

// Thaw lets a frozen broker go on.
func (c *Cluster) Thaw(id int) error { return c.with(id, (*broker.Broker).Thaw) }

func (c *Cluster) with(id int, do func(*broker.Broker)) error {
	b := c.Broker(id)
	if b == nil {
		return fmt.Errorf("broker %d is not running", id)
	}
	do(b)
	return nil
}

func (c *Cluster) end(id int, how func(*broker.Broker)) error {
	return c.with(id, func(b *broker.Broker) {
		how(b)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.seats[id-1].running = nil
	})
}

// Restart starts a broker that is down, on its old address and with its logs.
func (c *Cluster) Restart(id int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id < 1 || id > len(c.mu.seats) || c.mu.seats[id-1].running != nil {
		return fmt.Errorf("broker %d is not down", id)
	}
	s := c.mu.seats[id-1]
	config := c.config.Broker
	config.ID, config.Addr, config.Logs, config.Controller = int32(id), s.addr, s.logs, c.controller
	b, err := broker.Start(config)
	if err == nil {
		s.running, s.addr = b, b.Addr()
	}
	return err
}

// Close kills everything.
func (c *Cluster) Close() {
	for id := range c.config.Brokers {
		_ = c.Kill(id + 1) // unless it is down
	}
	c.controller.Close()
}
