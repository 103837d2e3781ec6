// Package cluster runs a controller, a group coordinator and several brokers in one
// process, each broker on a loopback port of its own, and stops, kills, freezes and
// restarts them.
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
	"github.com/delayedop/purgatory/examples/heavy/broker/group"
)

// Config is how a cluster is started.
type Config struct {
	Brokers          int           // how many; their ids are 1, 2, …
	Port             int           // of the first broker, the others follow; 0 for any
	SessionTimeout   time.Duration // of a broker; default 3 s
	MinSession       time.Duration // of a group member; default 6 s
	InitialRebalance time.Duration // how long the first member of a group waits for others; default 300 ms
	Logger           *slog.Logger  // of the controller; nil for none
	Broker           broker.Config // what all have in common
}

// Cluster is a running cluster. Safe for concurrent use.
type Cluster struct {
	config Config

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
	logger := cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	page := config.Broker.Page
	var err error
	config.Broker.Controller, err = controller.New(cmp.Or(config.SessionTimeout, 3*time.Second), logger, page.Options()...)
	if err != nil {
		return nil, err
	}
	config.Broker.Groups, err = group.New(cmp.Or(config.MinSession, 6*time.Second),
		cmp.Or(config.InitialRebalance, 300*time.Millisecond), page.Options()...)
	if err != nil {
		return nil, err
	}
	page.Add(config.Broker.Groups.Rebalances)
	page.Add(config.Broker.Groups.Heartbeats)
	c := &Cluster{config: config}
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
func (c *Cluster) Stop(id int) error { return c.with(id, (*broker.Broker).Stop, true) }

// Kill takes a broker out as a crash would, and returns when it is gone.
func (c *Cluster) Kill(id int) error { return c.with(id, (*broker.Broker).Kill, true) }

// Freeze stops a broker in the middle of whatever it does, until Thaw.
func (c *Cluster) Freeze(id int) error { return c.with(id, (*broker.Broker).Freeze, false) }

// Thaw lets a frozen broker go on.
func (c *Cluster) Thaw(id int) error { return c.with(id, (*broker.Broker).Thaw, false) }

func (c *Cluster) with(id int, do func(*broker.Broker), ends bool) error {
	b := c.Broker(id)
	if b == nil {
		return fmt.Errorf("broker %d is not running", id)
	}
	do(b)
	if ends {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.seats[id-1].running = nil
	}
	return nil
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
	config.ID, config.Addr, config.Logs = int32(id), s.addr, s.logs
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
	c.config.Broker.Groups.Close()
	c.config.Broker.Controller.Close()
}
