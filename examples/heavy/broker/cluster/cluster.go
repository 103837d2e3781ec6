// Package cluster runs a controller and several brokers in one process, each on a
// loopback port of its own, and stops, kills, freezes and restarts them.
package cluster

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/broker/broker"
	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
	"github.com/delayedop/purgatory/purgatory"
)

// Config is how a cluster is started.
type Config struct {
	Brokers        int           // how many; their ids are 1, 2, …
	Port           int           // of the first broker, the others follow; 0 for any
	SessionTimeout time.Duration // of a broker; default 3 s
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
	if config.SessionTimeout == 0 {
		config.SessionTimeout = 3 * time.Second
	}
	log := config.Broker.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{config: config}
	var err error
	if c.controller, err = controller.New(config.SessionTimeout, log, config.Broker.Page.Options()...); err != nil {
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

// Stats are the statistics of the purgatories, by name.
func (c *Cluster) Stats() map[string]purgatory.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]purgatory.Stats{"broker session": c.controller.Sessions().Stats()}
	for i, s := range c.mu.seats {
		if s.running != nil {
			for kind, stats := range s.running.Stats() {
				all[fmt.Sprintf("%s-%d", kind, i+1)] = stats
			}
		}
	}
	return all
}

// Pending is how many wait in the purgatories of one kind.
func (c *Cluster) Pending(kind string) (n int64) {
	for name, stats := range c.Stats() {
		if strings.HasPrefix(name, kind+"-") {
			n += stats.Pending
		}
	}
	return n
}

// Table shows what waited in each purgatory of the brokers that run, and how it ended.
func (c *Cluster) Table() string {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "purgatory\taccepted\tsatisfied\texpired\tcancelled\tclosed\tpending\tchecks\twasted\t\n")
	stats := c.Stats()
	for _, name := range slices.Sorted(maps.Keys(stats)) {
		s := stats[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name,
			s.Accepted, s.Satisfied, s.Expired, s.Cancelled, s.Closed, s.Pending, s.Checks, s.WastedChecks)
	}
	_ = w.Flush() // a strings.Builder does not fail
	return table.String()
}
