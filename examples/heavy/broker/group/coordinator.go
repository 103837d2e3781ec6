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
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/purgatory"
)

// The largest values a member may ask for.
const (
	maxSession   = 30 * time.Minute
	maxRebalance = 30 * time.Minute
)

// Coordinator holds the groups that one broker coordinates. Whoever makes one gives it
// its purgatories, and closes them. Safe for concurrent use. Its lock may be taken under
// a group's.
type Coordinator struct {
	Rebalances       *purgatory.DelayedOperationPurgatory[WaitKey]
	Heartbeats       *purgatory.DelayedOperationPurgatory[MemberKey]
	MinSession       time.Duration                  // the shortest session timeout a member may ask for
	InitialRebalance time.Duration                  // how long the first member of a group waits for others
	Owns             func(group string) *kerr.Error // nil: this broker coordinates the group

	mu struct {
		sync.Mutex
		groups map[string]*group
	}
}

// WaitKey is where those who wait in a rebalance are found: by group and phase,
// and by the connection that their answer goes to.
type WaitKey struct {
	group string
	phase phase
	conn  uint64
}

type phase uint8

const (
	connection phase = iota // ended
	joins                   // of a group
	syncs
)

// String is what the debug page shows of a key.
func (k WaitKey) String() string {
	if k.phase == connection {
		return fmt.Sprintf("end of connection %d", k.conn)
	}
	return fmt.Sprintf("%s of %s", [...]string{joins: "joins", syncs: "syncs"}[k.phase], k.group)
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

var errGone = errors.New("group: the client is gone")

// Gone forgets the waits of a connection that has ended. Its members stay, for
// as long as their sessions do.
func (c *Coordinator) Gone(conn uint64) {
	c.Rebalances.CancelForKey(WaitKey{phase: connection, conn: conn}, errGone)
}

// Resign gives up the groups for which it is asked: another broker
// coordinates them now, and whoever waits here is told so.
func (c *Coordinator) Resign(moved func(group string) bool) {
	c.mu.Lock()
	var gone []*group
	for name, g := range c.mu.groups {
		if moved(name) {
			gone = append(gone, g)
			delete(c.mu.groups, name)
		}
	}
	c.mu.Unlock()
	for _, g := range gone {
		g.lock()
		g.mu.state = dead
		for _, m := range g.mu.members {
			g.endSessionLocked(m)
		}
		g.unlock()
		for _, phase := range []phase{joins, syncs} {
			c.Rebalances.CancelForKey(WaitKey{group: g.name, phase: phase}, kerr.NotCoordinator)
		}
	}
}

// group finds a group, and makes it if create says so.
func (c *Coordinator) group(name string, create bool) *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.mu.groups[name]
	if g == nil && create {
		g = newGroup(c, name)
		if c.mu.groups == nil {
			c.mu.groups = make(map[string]*group)
		}
		c.mu.groups[name] = g
	}
	return g
}

// find finds a group that this broker coordinates and that has members.
func (c *Coordinator) find(name string) (*group, *kerr.Error) {
	if err := c.owns(name); err != nil {
		return nil, err
	}
	if g := c.group(name, false); g != nil {
		return g, nil
	}
	return nil, kerr.UnknownMemberID
}

// owns says why this broker does not coordinate a group.
func (c *Coordinator) owns(name string) *kerr.Error {
	if name == "" {
		return kerr.InvalidGroupID
	}
	return c.Owns(name)
}

// drop forgets a group that has no members any more.
func (c *Coordinator) drop(g *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.groups[g.name] == g {
		delete(c.mu.groups, g.name)
	}
}
