// Package broker is one Kafka broker, in memory: it leads some partitions and
// follows others, and answers clients. Whatever has to wait is a delayed operation
// in one of its purgatories, or in those of the group coordinator:
//
//	produces  acks=all, until the high watermark reaches a position
//	fetches   consumers and followers, until there are enough bytes
package broker

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
	"github.com/delayedop/purgatory/examples/heavy/broker/wire"
	"github.com/delayedop/purgatory/purgatory"
)

// Broker is a running broker. Safe for concurrent use.
type Broker struct {
	config   Config
	server   *wire.Server
	gate     wire.Gate
	produces *waits
	fetches  *waits
	all      map[string]*waits // by kind: the part of the name that all brokers have in common

	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	session atomic.Pointer[controller.Session]
	current atomic.Pointer[controller.Picture] // the partitions are what it says

	applying struct {
		sync.Mutex        // one picture at a time; above every other lock
		unfollow   func() // ends the following of other brokers
	}
	mu struct {
		sync.Mutex
		partitions map[topicPartition]*partition
	}
}

// Start starts a broker, which is part of the cluster when Start returns.
func Start(config Config) (*Broker, error) {
	b := &Broker{config: config.withDefaults(), all: make(map[string]*waits)}
	b.mu.partitions = make(map[topicPartition]*partition)
	b.applying.unfollow = func() {}
	b.current.Store(&controller.Picture{})
	b.ctx, b.cancel = context.WithCancel(context.Background())
	err := b.open()
	if err != nil {
		b.Kill()
		return nil, fmt.Errorf("broker %d: %w", b.config.ID, err)
	}
	b.wg.Go(b.live)
	return b, nil
}

// open makes the purgatories, listens and registers.
func (b *Broker) open() (err error) {
	for kind, p := range map[string]**waits{"produce": &b.produces, "fetch": &b.fetches} {
		options := append(b.config.Page.Options(), b.config.Purgatory...)
		if kind == "fetch" {
			options = append(options, purgatory.WithTimeoutsExpected()) // a consumer that has read everything waits in vain
		}
		if *p, err = purgatory.New[waitKey](fmt.Sprintf("%s-%d", kind, b.config.ID), options...); err != nil {
			return err
		}
		b.all[kind] = *p
		b.config.Page.Add(*p)
	}
	listener, err := net.Listen("tcp", b.config.Addr)
	if err != nil {
		return err
	}
	b.server = wire.Serve(netutil.LimitListener(listener, maxConns), versions, b, &b.gate, b.config.MaxStall)
	return b.register()
}

// register begins a session at the controller and becomes what its picture says.
func (b *Broker) register() error {
	session, err := b.config.Controller.Register(b.config.ID, b.server.Addr().AddrPort())
	if err != nil {
		return err
	}
	b.session.Store(session)
	b.apply(b.config.Controller.Picture())
	return nil
}

// live takes pictures, sends heartbeats and looks after the in-sync sets. A broker
// whose session has ended, for it was frozen, begins another.
func (b *Broker) live() {
	beat := time.NewTicker(min(heartbeat, b.config.MaxLag/2))
	defer beat.Stop()
	for {
		session := b.session.Load()
		select {
		case <-b.ctx.Done():
			return
		case <-session.Changed():
		case <-beat.C:
		}
		if !b.gate.Pass(b.ctx) {
			return
		}
		if !session.Heartbeat() {
			if err := b.register(); err != nil {
				return // the controller has closed
			}
		}
		b.apply(b.config.Controller.Picture())
		b.mu.Lock()
		all := slices.Collect(maps.Values(b.mu.partitions))
		b.mu.Unlock()
		for _, p := range all {
			b.wake(p, p.improve(time.Now()))
		}
	}
}

// Addr is where clients find the broker.
func (b *Broker) Addr() string { return b.server.Addr().String() }

// Conns is the number of its open connections.
func (b *Broker) Conns() int { return b.server.Conns() }

// Stop leaves the cluster in order: the controller moves leadership away,
// everybody who waits is told so, and their answers are sent.
func (b *Broker) Stop() {
	b.session.Load().Leave()
	b.apply(b.config.Controller.Picture()) // others lead, and what waits here waits in vain
	b.end((*wire.Server).Drain)
}

// Kill ends the broker as a crash would: connections break, nobody is told.
func (b *Broker) Kill() { b.end((*wire.Server).Close) }

// Freeze stops the broker in the middle of whatever it does, as a process that gets
// no processor time: it reads and writes nothing and sends no heartbeat.
func (b *Broker) Freeze() { b.gate.Shut() }

// Thaw lets a frozen broker go on.
func (b *Broker) Thaw() { b.gate.Open() }

func (b *Broker) end(server func(*wire.Server)) {
	b.cancel()
	for _, p := range b.all {
		_ = p.Close()
	}
	if b.server != nil {
		server(b.server)
	}
	b.wg.Wait()
	b.applying.Lock()
	b.applying.unfollow()
	b.applying.Unlock()
	for _, p := range b.all {
		_ = p.Shutdown(context.Background())
		b.config.Page.Remove(p)
	}
}

// Stats are the statistics of the broker's purgatories, by kind.
func (b *Broker) Stats() map[string]purgatory.Stats {
	stats := make(map[string]purgatory.Stats)
	for kind, p := range b.all {
		stats[kind] = p.Stats()
	}
	return stats
}
