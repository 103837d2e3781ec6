// Package controller decides for the cluster: which brokers live, which topics
// there are, who leads each partition and which replicas are in sync. Brokers
// register, send heartbeats and propose changes with the requests that Kafka's
// own brokers use; the controller sends every broker the whole picture, an
// UpdateMetadata request, whenever it changes.
//
// There is one controller, and its memory is the only place where the picture
// is kept.
package controller

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/wire"
	"github.com/delayedop/purgatory/purgatory"
)

// Config is how a controller is started.
type Config struct {
	Addr           string        // where to listen; loopback
	SessionTimeout time.Duration // how long a broker may be silent
	// Purgatory gives options for the purgatory of that kind.
	Purgatory func(kind string) []purgatory.Option
	Logger    *slog.Logger // nil for none
}

// Controller is a running controller. Safe for concurrent use.
type Controller struct {
	config   Config
	server   *wire.Server
	sessions *purgatory.DelayedOperationPurgatory[uint64] // by connection
	pictures *purgatory.DelayedOperationPurgatory[struct{}]
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu struct {
		sync.Mutex
		brokers    map[int32]*registration
		topics     map[string]*topic
		partitions int // of all topics
		replicas   int
		producerID int64
		version    int64 // of the picture
	}
}

var versions = wire.Versions{
	18: {Min: 0, Max: 4}, // ApiVersions
	19: {Min: 7, Max: 7}, // CreateTopics, passed on by brokers
	20: {Min: 6, Max: 6}, // DeleteTopics, too
	56: {Min: 3, Max: 3}, // AlterPartition
	62: {Min: 3, Max: 3}, // BrokerRegistration
	63: {Min: 0, Max: 0}, // BrokerHeartbeat
	67: {Min: 0, Max: 0}, // AllocateProducerIds
}

// Start listens and serves until Close.
func Start(config Config) (*Controller, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Controller{config: config}
	c.mu.brokers = make(map[int32]*registration)
	c.mu.topics = make(map[string]*topic)
	var err error
	if c.sessions, err = purgatory.New[uint64]("broker session", config.Purgatory("broker session")...); err != nil {
		return nil, err
	}
	if c.pictures, err = purgatory.New[struct{}]("picture", config.Purgatory("picture")...); err != nil {
		_ = c.sessions.Close()
		return nil, err
	}
	listener, err := net.Listen("tcp", config.Addr)
	if err != nil {
		_ = c.sessions.Close()
		_ = c.pictures.Close()
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.server = wire.Serve(listener, versions, c, wire.Limits{Logger: config.Logger})
	return c, nil
}

// Addr is where brokers find the controller.
func (c *Controller) Addr() string { return c.server.Addr().String() }

// Close stops the controller. The brokers go on with the picture they have.
func (c *Controller) Close() {
	c.cancel()
	_ = c.sessions.Close()
	_ = c.pictures.Close()
	c.server.Close()
	c.wg.Wait()
	_ = c.sessions.Shutdown(context.Background())
	_ = c.pictures.Shutdown(context.Background())
}

// Handle answers one request of a broker.
func (c *Controller) Handle(conn *wire.Conn, req kmsg.Request, reply func(kmsg.Response)) {
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		reply(versions.Answer(req))
	case *kmsg.BrokerRegistrationRequest:
		reply(c.register(conn, req))
	case *kmsg.BrokerHeartbeatRequest:
		reply(c.heartbeat(req))
	case *kmsg.AlterPartitionRequest:
		reply(c.alterPartition(req))
	case *kmsg.CreateTopicsRequest:
		reply(c.createTopics(req))
	case *kmsg.DeleteTopicsRequest:
		reply(c.deleteTopics(req))
	case *kmsg.AllocateProducerIDsRequest:
		reply(c.allocateProducerIDs(req))
	}
}

// allocateProducerIDs hands out a block that no other broker gets.
func (c *Controller) allocateProducerIDs(req *kmsg.AllocateProducerIDsRequest) kmsg.Response {
	const block = 1000
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	resp.ProducerIDStart, resp.ProducerIDLen = c.mu.producerID, block
	c.mu.producerID += block
	return resp
}
