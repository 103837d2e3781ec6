package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"github.com/delayedop/purgatory/purgatory"
)

// Status is what a node knows of itself.
type Status struct {
	Member
	State    string `json:"state"`
	Leader   Member `json:"leader"`
	Term     uint64 `json:"term"`
	Commit   uint64 `json:"commit"`
	Applied  uint64 `json:"applied"`
	Snapshot uint64 `json:"snapshot"` // index of the latest
	Restored int64  `json:"restored"` // snapshots that this process has taken over, at its start or from a leader
	Keys     int    `json:"keys"`

	Waiting int   `json:"waiting"` // calls, of all kinds
	Refused int64 `json:"refused"` // waits

	Members []Member `json:"members"`
}

// Status returns what the node knows of itself.
func (n *Node) Status() Status {
	s := Status{
		Member: n.cfg.Member, State: n.raft.State().String(), Leader: n.Leader(), Term: n.raft.CurrentTerm(),
		Commit: n.raft.CommitIndex(), Applied: n.store.Applied(), Keys: n.store.Len(),
		Restored: n.restored.Load(),
	}
	s.Snapshot, _ = strconv.ParseUint(n.raft.Stats()["last_snapshot_index"], 10, 64)
	for _, m := range n.raft.GetConfiguration().Configuration().Servers {
		s.Members = append(s.Members, Member{string(m.ID), string(m.Address)})
	}
	for _, w := range []purgatory.Stats{n.proposals.Stats(), n.positions.Stats(), n.watches.Stats(), n.confirms.Stats()} {
		s.Waiting += int(w.Pending)
		s.Refused += w.Rejected
	}
	return s
}

// AddMember makes m a voting member. It has to be called on the leader. The engine's answer may take as long as it likes: it is
// waited for until ctx ends, and until it has come nobody else is added.
func (n *Node) AddMember(ctx context.Context, m Member) error {
	if err := checkAddress(m.Address); err != nil || m.ID == "" {
		return fmt.Errorf("%w: %q at %q", ErrBadMember, m.ID, m.Address)
	}
	select {
	case n.joining <- struct{}{}:
	case <-ctx.Done():
		return endedBy(ctx)
	}
	added := make(chan error, 1)
	go func() {
		added <- n.add(m)
		<-n.joining
	}()
	select {
	case err := <-added:
		return err
	case <-ctx.Done():
		return endedBy(ctx)
	}
}

func endedBy(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrDeadline
	}
	return context.Cause(ctx)
}

// add makes m a member unless its id or its address is taken: the engine would give a member that it knows the new address.
func (n *Node) add(m Member) error {
	if !leads(n.reign.Load()) {
		return &NotLeaderError{n.Leader()}
	}
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		sameID, sameAddress := string(s.ID) == m.ID, string(s.Address) == m.Address
		if sameID && sameAddress {
			return nil
		}
		if sameID || sameAddress {
			return fmt.Errorf("%w: there is %s at %s already", ErrBadMember, s.ID, s.Address)
		}
	}
	if err := n.raft.AddVoter(raft.ServerID(m.ID), raft.ServerAddress(m.Address), 0, time.Second).Error(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotAdded, err)
	}
	return nil
}

// HTTPListener returns where HTTP requests to this node's address arrive.
func (n *Node) HTTPListener() net.Listener { return newWeb(n.mux) }

// Remote returns the way to other members.
func (n *Node) Remote() *Remote { return n.remote }

// ID returns the node's id.
func (n *Node) ID() string { return n.cfg.ID }

// MaxValue returns the longest value, in bytes.
func (n *Node) MaxValue() int { return n.cfg.MaxValue }
