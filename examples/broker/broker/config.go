package broker

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
	"github.com/delayedop/purgatory/purgatory"
)

// offsetsTopic is where the coordinators keep committed offsets, as in Kafka.
const offsetsTopic = "__consumer_offsets"

// Config is how a broker is started. Zero values get defaults.
type Config struct {
	ID         int32
	Addr       string // where to listen; loopback
	Controller string // where the controller listens
	Disk       *Disk  // what the broker's former life left; nil for a new one

	HeartbeatInterval time.Duration // to the controller; default 1 s
	ControllerTimeout time.Duration // within which the controller answers, or is taken for dead; default 10 s
	Registration      time.Duration // how long Start tries to register; default 30 s
	MaxLag            time.Duration // of a follower in sync; default 2 s
	MinInsyncReplicas int           // for acks=all, or all replicas of a partition that has fewer; default 1
	MaxBatchBytes     int           // default 1 MiB
	MaxFetchBytes     int           // of one response; default 8 MiB
	RetentionBytes    int           // per partition; default 256 MiB
	Memory            int           // for logs, requests and answers, in bytes; default 1 GiB
	OffsetsPartitions int32         // of the offsets topic; default 6
	MaxWait           time.Duration // of any request, whatever its client asks for; default 1 min

	MinSession       time.Duration // of a group member; default 6 s
	InitialRebalance time.Duration // how long an empty group waits for more members; default 300 ms

	// Purgatory gives options for the purgatory of that kind; nil for none.
	Purgatory func(kind string) []purgatory.Option
	Logger    *slog.Logger // nil for none
	// Page shows what waits in the broker, while it runs; nil for none.
	Page *debugserver.Server
}

func (c Config) withDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:0")
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, time.Second)
	c.ControllerTimeout = cmp.Or(c.ControllerTimeout, 10*time.Second)
	c.Registration = cmp.Or(c.Registration, 30*time.Second)
	c.MaxLag = cmp.Or(c.MaxLag, 2*time.Second)
	c.MinInsyncReplicas = cmp.Or(c.MinInsyncReplicas, 1)
	c.MaxBatchBytes = cmp.Or(c.MaxBatchBytes, 1<<20)
	c.MaxFetchBytes = cmp.Or(c.MaxFetchBytes, 8<<20)
	c.RetentionBytes = cmp.Or(c.RetentionBytes, 256<<20)
	c.Memory = cmp.Or(c.Memory, 1<<30)
	c.OffsetsPartitions = cmp.Or(c.OffsetsPartitions, 6)
	c.MaxWait = cmp.Or(c.MaxWait, time.Minute)
	c.MinSession = cmp.Or(c.MinSession, 6*time.Second)
	c.InitialRebalance = cmp.Or(c.InitialRebalance, 300*time.Millisecond)
	if c.Disk == nil {
		c.Disk = &Disk{}
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
