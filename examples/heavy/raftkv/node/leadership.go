package node

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/kv"
)

// beginTimeout bounds one attempt to write the first entry of a term.
const beginTimeout = time.Second

func leads(reign uint64) bool { return reign%2 == 1 }

// Leader returns who leads, as far as this node knows.
func (n *Node) Leader() Member {
	address, id := n.raft.LeaderWithID()
	return Member{ID: string(id), Address: string(address)}
}

// follow learns from the engine when this node begins and ceases to lead. When a reign ends, every proposal of it is told so:
// those that wait, by CancelForKey; one that is being registered at this moment sees the new number in its TryComplete.
func (n *Node) follow(notify <-chan bool) {
	for {
		select {
		case lead := <-notify:
			if lead == leads(n.reign.Load()) {
				continue
			}
			reign := n.reign.Add(1)
			if lead {
				n.wg.Go(func() { n.begin(reign) })
				continue
			}
			n.proposals.CancelForKey(reign-1, ErrLeadershipLost)
			n.confirms.CancelForKey(lineConfirmed, ErrLeadershipLost)
		case <-n.quit:
			return
		}
	}
}

// begin writes an entry that marks the term. When this node has applied it, it has applied everything that earlier terms have
// committed, and may tell others what its commit index is. It also makes every index that is handed out one that state
// machines get to see: the engine keeps its own first entry of a term to itself, and what a node waits for would not come.
func (n *Node) begin(reign uint64) {
	for n.reign.Load() == reign {
		if _, err := n.propose(context.Background(), kv.Command{Begin: true}, beginTimeout); err == nil {
			return
		}
		select {
		case <-time.After(n.cfg.Heartbeat / 10):
		case <-n.quit:
			return
		}
	}
}

// runConfirmations has the engine send heartbeats at once, when somebody asks for a confirmation. Those who ask meanwhile share
// the next one.
func (n *Node) runConfirmations() {
	for {
		select {
		case <-n.confirm:
			n.raft.VerifyLeader()
		case <-n.quit:
			return
		}
	}
}

// tellConfirmed tells those who wait for a confirmation how far it has come.
func (n *Node) tellConfirmed() {
	n.confirms.SignalUpTo(lineConfirmed, n.confirmedSince())
}

// confirmedSince returns the latest time at which this node certainly led, in the engine's present term.
func (n *Node) confirmedSince() int64 {
	if !n.runs.Load() || n.raft.State() != raft.Leader {
		return 0
	}
	r := n.raft
	return n.transport.since(r.CurrentTerm(), raft.ServerID(n.cfg.ID), r.GetConfiguration().Configuration().Servers)
}
