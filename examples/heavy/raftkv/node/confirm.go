package node

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// confirming is the engine's transport, and notes which members have confirmed this node's leadership, and since when.
//
// The engine's VerifyLeader sends the heartbeats, and its verdict is not used: it counts the next reply of a member, also one to
// a message that was sent before the read came. A leader that was frozen while the others elected a new one may find such
// replies in its sockets when it thaws. Here a reply counts from the moment at which its request was sent: a member that
// accepted a message of term t sent at s had not, at s, promised anything to a later term. A majority of those means that no
// later leader existed at s.
type confirming struct {
	*raft.NetworkTransport
	started time.Time
	onReply func() // after a confirmation was noted

	mu struct {
		sync.Mutex
		replies map[raft.ServerID]confirmation
	}
}

// confirmation says that a member accepted a message of a term that was sent at a time, in nanoseconds since the start.
type confirmation struct {
	term uint64
	sent int64
}

func newConfirming(t *raft.NetworkTransport) *confirming {
	c := &confirming{NetworkTransport: t, started: time.Now(), onReply: func() {}}
	c.mu.replies = make(map[raft.ServerID]confirmation)
	return c
}

// now is the time on the clock of confirmations. It begins at 1, so that 0 is before everything.
func (c *confirming) now() int64 { return int64(time.Since(c.started)) + 1 }

// AppendEntries sends a heartbeat, or entries, and notes the member's confirmation.
func (c *confirming) AppendEntries(
	id raft.ServerID, target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	sent := c.now()
	err := c.NetworkTransport.AppendEntries(id, target, req, resp)
	if err != nil || !resp.Success {
		return err
	}
	c.note(id, confirmation{req.Term, sent})
	c.onReply()
	return nil
}

func (c *confirming) note(id raft.ServerID, reply confirmation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.mu.replies[id]; reply.term > last.term || reply.term == last.term && reply.sent > last.sent {
		c.mu.replies[id] = reply
	}
}

// since returns the latest time at which a majority of the voters, self included, still followed the leader of term.
func (c *confirming) since(term uint64, self raft.ServerID, servers []raft.Server) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sent []int64
	for _, s := range servers {
		switch reply := c.mu.replies[s.ID]; {
		case s.Suffrage != raft.Voter:
		case s.ID == self:
			sent = append(sent, math.MaxInt64)
		case reply.term == term:
			sent = append(sent, reply.sent)
		default:
			sent = append(sent, 0)
		}
	}
	if len(sent) == 0 {
		return 0
	}
	slices.Sort(sent)
	return sent[(len(sent)-1)/2] // as many as a majority are at or after it
}
