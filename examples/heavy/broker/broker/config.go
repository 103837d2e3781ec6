package broker

import (
	"cmp"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog"
	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
	"github.com/delayedop/purgatory/examples/heavy/broker/group"
	"github.com/delayedop/purgatory/examples/internal/debugserver"
	"github.com/delayedop/purgatory/purgatory"
)

// What a broker puts up with.
const (
	maxConns      = 1024 // more wait to be accepted
	maxBatchBytes = 1 << 20
	maxLogBytes   = 64 << 20 // of a partition, which drops what is oldest, unless it is not committed
	heartbeat     = 500 * time.Millisecond
)

// Config is how a broker is started. Zero values get defaults.
type Config struct {
	ID         int32
	Addr       string                 // where to listen; loopback
	Controller *controller.Controller // of all brokers of the process
	Groups     *group.Coordinator     // of all brokers of the process
	Logs       Logs                   // what the broker's former life left, and what this one leaves

	MaxLag            time.Duration // of a follower in sync; default 2 s
	MinInsyncReplicas int           // for acks=all, or all replicas of a partition that has fewer
	MaxFetchBytes     int           // of one response; default 8 MiB
	MaxWait           time.Duration // of any request, whatever its client asks for; default 1 min
	MaxStall          time.Duration // of a client in the middle of a request; default 30 s

	Purgatory []purgatory.Option  // for its purgatories
	Page      *debugserver.Server // shows what waits in the broker, while it runs; nil for none
}

// Logs are the logs of a broker's replicas. They outlive the broker, as a disk would.
type Logs map[topicPartition]*commitlog.Log

func (c Config) withDefaults() Config {
	c.MaxLag = cmp.Or(c.MaxLag, 2*time.Second)
	c.MaxFetchBytes = cmp.Or(c.MaxFetchBytes, 8<<20)
	c.MaxWait = cmp.Or(c.MaxWait, time.Minute)
	c.MaxStall = cmp.Or(c.MaxStall, 30*time.Second)
	return c
}
