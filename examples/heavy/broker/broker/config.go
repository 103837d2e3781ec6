package broker

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog"
	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
	"github.com/delayedop/purgatory/examples/internal/debugserver"
	"github.com/delayedop/purgatory/purgatory"
)

// Config is how a broker is started. Zero values get defaults.
type Config struct {
	ID         int32
	Addr       string                 // where to listen; loopback
	Controller *controller.Controller // of all brokers of the process
	Logs       Logs                   // what the broker's former life left; nil for a new one

	HeartbeatInterval time.Duration // to the controller; default 500 ms
	MaxLag            time.Duration // of a follower in sync; default 2 s
	MinInsyncReplicas int           // for acks=all, or all replicas of a partition that has fewer; default 1
	MaxBatchBytes     int           // default 1 MiB
	MaxFetchBytes     int           // of one response; default 8 MiB
	LogBytes          int           // of all partitions, which share it evenly and get two batches at least; default 512 MiB
	MaxWait           time.Duration // of any request, whatever its client asks for; default 1 min

	MinSession       time.Duration // of a group member; default 6 s
	InitialRebalance time.Duration // how long an empty group waits for more members; default 300 ms

	// Purgatory gives options for the purgatory of that kind; nil for none.
	Purgatory func(kind string) []purgatory.Option
	Logger    *slog.Logger // nil for none
	// Page shows what waits in the broker, while it runs; nil for none.
	Page *debugserver.Server
}

// Logs are the logs of a broker's replicas. They outlive the broker, as a disk would.
type Logs map[topicPartition]*commitlog.Log

func (c Config) withDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:0")
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, 500*time.Millisecond)
	c.MaxLag = cmp.Or(c.MaxLag, 2*time.Second)
	c.MinInsyncReplicas = cmp.Or(c.MinInsyncReplicas, 1)
	c.MaxBatchBytes = cmp.Or(c.MaxBatchBytes, 1<<20)
	c.MaxFetchBytes = cmp.Or(c.MaxFetchBytes, 8<<20)
	c.LogBytes = cmp.Or(c.LogBytes, 512<<20)
	c.MaxWait = cmp.Or(c.MaxWait, time.Minute)
	c.MinSession = cmp.Or(c.MinSession, 6*time.Second)
	c.InitialRebalance = cmp.Or(c.InitialRebalance, 300*time.Millisecond)
	if c.Logs == nil {
		c.Logs = make(Logs)
	}
	if c.Purgatory == nil {
		c.Purgatory = func(string) []purgatory.Option { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("broker", c.ID)
	return c
}
