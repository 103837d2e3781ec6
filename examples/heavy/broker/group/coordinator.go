// Package group coordinates consumer groups: who is a member, which generation
// of the group counts, and what each member was assigned. It is Kafka's classic
// protocol, in which the members' leader does the assigning.
//
// A group lives through these states:
//
//	empty ──join──▶ joining ──all there, or time──▶ syncing ──leader assigns──▶ stable
//	                   ▲                               │                          │
//	                   └────── a member comes, goes, falls silent, or changes ────┘
//
// Every wait is a delayed operation: a member's JoinGroup and SyncGroup
// requests and the rebalance itself in Rebalances, its session in Heartbeats.
package group

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
	"github.com/delayedop/purgatory/purgatory"
)

// The largest values a member may ask for.
const (
	maxSession   = 30 * time.Minute
	maxRebalance = 30 * time.Minute
	maxProtocols = 100 // each is looked for among those of every other member
)

// Coordinator holds the groups, and what they have committed. There is one for all
// brokers of the process, as there is one controller: a group outlives each of them.
// Safe for concurrent use. Its lock may be taken under a group's.
type Coordinator struct {
	Rebalances       *purgatory.Purgatory[WaitKey]
	Heartbeats       *purgatory.Purgatory[MemberKey]
	minSession       time.Duration
	initialRebalance time.Duration

	mu struct {
		sync.Mutex
		groups map[string]*group // once named, a group stays: empty, with its offsets
	}
}

// Offsets is where a group has come to in each partition, as it was committed.
type Offsets map[controller.TopicPartition]kmsg.OffsetCommitRequestTopicPartition

// New makes a coordinator without groups. A member may ask for minSession or longer. The
// first member of a group waits for others for initialRebalance.
func New(minSession, initialRebalance time.Duration, opts ...purgatory.Option) (c *Coordinator, err error) {
	c = &Coordinator{minSession: minSession, initialRebalance: initialRebalance}
	c.mu.groups = make(map[string]*group)
	opts = append(opts[:len(opts):len(opts)], purgatory.WithTimeoutsExpected()) // a member that is silent, or missing, is the news
	if c.Rebalances, err = purgatory.New[WaitKey]("rebalance", opts...); err == nil {
		c.Heartbeats, err = purgatory.New[MemberKey]("heartbeat", opts...)
	}
	return c, err
}

// Close ends every wait and every session.
func (c *Coordinator) Close() {
	_ = c.Rebalances.Close()
	_ = c.Heartbeats.Close()
	_ = c.Rebalances.Shutdown(context.Background())
	_ = c.Heartbeats.Shutdown(context.Background())
}

// WaitKey is where those who wait in a rebalance are found: by group and phase,
// and by the connection that their answer goes to.
type WaitKey struct {
	group string
	phase phase
	conn  uint64
}

type phase string

const (
	connection phase = "end of connection"
	joins      phase = "joins" // of a group
	syncs      phase = "syncs"
)

// String is what the debug page shows of a key.
func (k WaitKey) String() string {
	if k.phase == connection {
		return fmt.Sprintf("%s %d", k.phase, k.conn)
	}
	return fmt.Sprintf("%s of %s", k.phase, k.group)
}

// MemberKey is where a member's session is found.
type MemberKey struct{ group, member string }

// String is what the debug page shows of a key.
func (k MemberKey) String() string { return k.group + ": " + k.member }

// Client is where the answer to a request goes.
type Client struct {
	Conn uint64      // its connection; see Gone
	Open func() bool // false before Gone is called
}

// Gone forgets the waits of a connection that has ended. Its members stay, for
// as long as their sessions do.
func (c *Coordinator) Gone(conn uint64) {
	c.Rebalances.CancelForKey(WaitKey{phase: connection, conn: conn}, net.ErrClosed)
}

// group finds or makes a group.
func (c *Coordinator) group(name string) *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.mu.groups[name]
	if g == nil {
		g = newGroup(c, name)
		c.mu.groups[name] = g
	}
	return g
}

// Committed is what a group has committed.
func (c *Coordinator) Committed(group string) Offsets {
	g := c.group(group)
	g.lock()
	defer g.unlock()
	return maps.Clone(g.mu.offsets)
}

// Commit keeps the offsets of a group, if the member may commit. It is a sign of life
// too. Without a generation, offsets may be committed for a group that has no
// members: by a client that assigns partitions to itself. While a generation syncs
// nobody may commit: the partitions are being given to others.
func (c *Coordinator) Commit(req *kmsg.OffsetCommitRequest, offsets Offsets) error {
	g := c.group(req.Group)
	g.lock()
	defer g.unlock()
	if req.Generation >= 0 || len(g.mu.members) > 0 {
		if err := g.aliveLocked(req.MemberID, req.InstanceID, req.Generation, syncing); err != nil {
			return err
		}
	}
	maps.Copy(g.mu.offsets, offsets)
	return nil
}
