package broker

import (
	"cmp"
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
	MaxLag            time.Duration // of a follower in sync; default 2 s
	MinInsyncReplicas int           // for acks=all; default 1
	MaxBatchBytes     int           // default 1 MiB
	MaxFetchBytes     int           // of one response; default 8 MiB
	RetentionBytes    int           // per partition; default 256 MiB
	OffsetsPartitions int32         // of the offsets topic; default 6

	MinSession       time.Duration // of a group member; default 6 s
	InitialRebalance time.Duration // how long an empty group waits for more members; default 300 ms

	// Purgatory gives options for the purgatory of that kind; nil for none.
	Purgatory func(kind string) []purgatory.Option
	// Page shows what waits in the broker, while it runs; nil for none.
	Page *debugserver.Server
}

func (c Config) withDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:0")
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, time.Second)
	c.MaxLag = cmp.Or(c.MaxLag, 2*time.Second)
	c.MinInsyncReplicas = cmp.Or(c.MinInsyncReplicas, 1)
	c.MaxBatchBytes = cmp.Or(c.MaxBatchBytes, 1<<20)
	c.MaxFetchBytes = cmp.Or(c.MaxFetchBytes, 8<<20)
	c.RetentionBytes = cmp.Or(c.RetentionBytes, 256<<20)
	c.OffsetsPartitions = cmp.Or(c.OffsetsPartitions, 6)
	c.MinSession = cmp.Or(c.MinSession, 6*time.Second)
	c.InitialRebalance = cmp.Or(c.InitialRebalance, 300*time.Millisecond)
	if c.Disk == nil {
		c.Disk = &Disk{}
	}
	if c.Purgatory == nil {
		c.Purgatory = func(string) []purgatory.Option { return nil }
	}
	return c
}
