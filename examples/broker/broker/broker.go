// Package broker is one Kafka broker, in memory: it leads some partitions and
// follows others, answers clients, and coordinates consumer groups. Whatever
// has to wait is a delayed operation in one of its purgatories:
//
//	produces   acks=all, until the high watermark reaches a position
//	fetches    consumers and followers, until there are enough bytes
//	deletes    DeleteRecords, until the in-sync replicas have dropped them too
//	rebalances group members, until the others have joined, or the leader has assigned
//	heartbeats group members' sessions, until one falls silent
//	arrivals   whoever waits for a topic to appear
//	memory     requests, until there is room for them
package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/delayedop/purgatory/debug"
	"github.com/delayedop/purgatory/examples/broker/group"
	"github.com/delayedop/purgatory/examples/broker/wire"
	"github.com/delayedop/purgatory/purgatory"
)

// Broker is a running broker. Safe for concurrent use.
type Broker struct {
	config   Config
	server   *wire.Server
	produces *waits
	fetches  *waits
	deletes  *waits
	groups   *group.Coordinator
	arrivals *purgatory.DelayedOperationPurgatory[string] // by topic
	memory   *holdings
	offsets  offsets
	ids      producerIDs

	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	epoch    atomic.Int64 // of this registration; the controller gives it
	self     [16]byte     // this process: a broker of the same id and another self is another
	asking   atomic.Pointer[wire.Client]
	refused  atomic.Pointer[error] // why the last attempt to register failed; nil after one that did not
	leaving  atomic.Bool
	current  atomic.Pointer[picture]
	applied  atomic.Pointer[picture] // the current one, once the partitions are what it says
	applying sync.Mutex              // one picture at a time; above every other lock

	mu struct {
		sync.Mutex
		ended      bool
		partitions map[topicPartition]*partition
		fetchers   map[int32]*fetcher // by leader
	}
}

// Start starts a broker, registers it with the controller and returns when it
// has seen the cluster.
func Start(ctx context.Context, config Config) (*Broker, error) {
	b := &Broker{config: config.withDefaults()}
	_, _ = rand.Read(b.self[:])
	b.mu.partitions = make(map[topicPartition]*partition)
	b.mu.fetchers = make(map[int32]*fetcher)
	b.current.Store(&picture{})
	b.applied.Store(&picture{})
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if err := b.open(); err != nil {
		b.Kill()
		return nil, fmt.Errorf("broker %d: %w", b.config.ID, err)
	}
	listener, err := net.Listen("tcp", b.config.Addr)
	if err != nil {
		b.Kill()
		return nil, fmt.Errorf("broker %d: %w", b.config.ID, err)
	}
	b.server = wire.Serve(listener, versions, b, wire.Limits{Memory: b.memory.requests, Logger: b.config.Logger})
	b.background(b.stayRegistered)
	b.background(b.watchLag)
	if err := b.arrivals.Await(ctx, b.config.Registration, b.registered, anyPicture); err != nil {
		if refused := b.refused.Load(); refused != nil {
			err = *refused
		}
		b.Kill()
		return nil, fmt.Errorf("broker %d: not registered with the controller at %s: %w", b.config.ID, b.config.Controller, err)
	}
	return b, nil
}

// open makes the purgatories, and shows them on the page.
func (b *Broker) open() (err error) {
	name := func(kind string) string { return fmt.Sprintf("%s-%d", kind, b.config.ID) }
	options := func(kind string) []purgatory.Option {
		return append(b.config.Page.Options(), b.config.Purgatory(kind)...)
	}
	if b.produces, err = purgatory.New[waitKey](name("produce"), options("produce")...); err != nil {
		return err
	}
	if b.fetches, err = purgatory.New[waitKey](name("fetch"), options("fetch")...); err != nil {
		return err
	}
	if b.deletes, err = purgatory.New[waitKey](name("delete"), options("delete")...); err != nil {
		return err
	}
	if b.arrivals, err = purgatory.New[string](name("topic"), options("topic")...); err != nil {
		return err
	}
	waits, err := purgatory.New[string](name("memory"), options("memory")...)
	if err != nil {
		return err
	}
	b.memory = newHoldings(b.config.Memory, waits)
	b.groups, err = group.NewCoordinator(group.Config{
		MinSession:       b.config.MinSession,
		InitialRebalance: b.config.InitialRebalance,
		Memory:           b.memory.logs,
		Name:             name,
		Purgatory:        options,
	})
	if err != nil {
		return err
	}
	b.shown(b.config.Page.Add)
	return nil
}

// shown does something with each purgatory that belongs on the page. That of
// topics does not: most that is in it are pauses, which end by timeout only.
func (b *Broker) shown(each func(debug.Source)) {
	b.purgatories(func(kind string, p anyPurgatory) {
		if kind != "topic" {
			each(p)
		}
	})
}

// Addr is where clients find the broker.
func (b *Broker) Addr() string { return b.server.Addr().String() }

// Conns is the number of its open connections.
func (b *Broker) Conns() int { return b.server.Conns() }

// ID is the broker's id.
func (b *Broker) ID() int32 { return b.config.ID }

// Stop leaves the cluster in order: the controller moves leadership away,
// everybody who waits is told so, and their answers are sent.
func (b *Broker) Stop() {
	b.leave()
	b.end((*wire.Server).Drain)
}

// Kill ends the broker as a crash would: connections break, nobody is told.
func (b *Broker) Kill() { b.end((*wire.Server).Close) }

func (b *Broker) end(server func(*wire.Server)) {
	b.mu.Lock()
	b.mu.ended = true // nothing goes to the background any more
	b.mu.Unlock()
	b.cancel()
	b.purgatories(func(_ string, p anyPurgatory) { _ = p.Close() })
	if b.server != nil {
		server(b.server)
	}
	b.applying.Lock()
	for _, f := range b.mu.fetchers {
		f.stop()
	}
	clear(b.mu.fetchers)
	b.applying.Unlock()
	b.wg.Wait()
	b.purgatories(func(_ string, p anyPurgatory) { _ = p.Shutdown(context.Background()) })
	b.shown(b.config.Page.Remove)
}

// anyPurgatory is a purgatory, whatever its keys.
type anyPurgatory interface {
	debug.Source
	Close() error
	Shutdown(context.Context) error
}

// purgatories goes through those that are open, by kind: the part of the name
// that all brokers have in common.
func (b *Broker) purgatories(each func(kind string, p anyPurgatory)) {
	if b.produces != nil {
		each("produce", b.produces)
	}
	if b.fetches != nil {
		each("fetch", b.fetches)
	}
	if b.deletes != nil {
		each("delete", b.deletes)
	}
	if b.arrivals != nil {
		each("topic", b.arrivals)
	}
	if b.memory != nil {
		each("memory", shownHoldings{b.memory.waits, b.memory})
	}
	if b.groups != nil {
		each("rebalance", b.groups.Rebalances)
		each("heartbeat", b.groups.Heartbeats)
	}
}

// Stats are the statistics of the broker's purgatories, by kind.
func (b *Broker) Stats() map[string]purgatory.Stats {
	stats := make(map[string]purgatory.Stats)
	b.purgatories(func(kind string, p anyPurgatory) { stats[kind] = p.Stats() })
	return stats
}

// background runs f on a goroutine of its own, under a context that ends with
// the broker; false when it has ended already.
func (b *Broker) background(f func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mu.ended {
		b.wg.Go(func() { f(b.ctx) })
	}
	return !b.mu.ended
}

func (b *Broker) partitionsCopy() []*partition {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.mu.partitions))
}

var (
	errEnded = errors.New("broker: not registered with the controller")
	errGone  = errors.New("broker: the client is gone")
)
