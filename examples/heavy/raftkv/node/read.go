package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/internal/defect"
	"github.com/delayedop/purgatory/examples/heavy/raftkv/kv"
	"github.com/delayedop/purgatory/purgatory"
)

// Read returns what key has, linearizably, on any node: all that any client knew to be written when Read was called is visible.
//
//  1. It asks the leader for an index that covers everything committed by then; see [Node.LeaderIndex].
//  2. It waits until this node has applied that index.
//  3. It reads here.
func (n *Node) Read(ctx context.Context, key string, timeout time.Duration) (e kv.Entry, found bool, err error) {
	if err := errors.Join(checkKey(key), checkTimeout(timeout)); err != nil {
		return kv.Entry{}, false, err
	}
	deadline := time.Now().Add(timeout)
	index, err := n.readIndex(ctx, deadline)
	if err == nil && !defect.SkipAppliedWait {
		err = n.AwaitApplied(ctx, index, time.Until(deadline))
	}
	if err != nil {
		return kv.Entry{}, false, err
	}
	e, found = n.store.Get(key)
	return e, found, nil
}

// ReadStale returns what key has on this node at this moment, which may lie behind what clients know to be written.
func (n *Node) ReadStale(key string) (e kv.Entry, found bool) { return n.store.Get(key) }

// AwaitApplied waits until this node has applied the log up to index.
func (n *Node) AwaitApplied(ctx context.Context, index uint64, timeout time.Duration) error {
	ready := func() bool { return n.store.Applied() >= index }
	return n.await(ctx, time.Now().Add(timeout), lineApplied, int64(index), ready)
}

// LeaderIndex returns an index that covers everything committed before it was called, if this node is the leader.
//
//  1. This node has applied an entry of its own term: its commit index covers what earlier terms have committed.
//  2. It notes its commit index, and the time.
//  3. It waits until a majority has confirmed that it led at that time; see [confirming].
//  4. The term is the same as in 1. So no other leader had committed anything before 2.
func (n *Node) LeaderIndex(ctx context.Context, timeout time.Duration) (uint64, error) {
	if err := checkTimeout(timeout); err != nil {
		return 0, err
	}
	deadline := time.Now().Add(timeout)
	term := n.raft.CurrentTerm()
	if n.raft.State() != raft.Leader {
		return 0, &NotLeaderError{n.Leader()}
	}
	if n.begun.Load() != term {
		return 0, fmt.Errorf("%w: term %d has only begun", ErrNoLeader, term)
	}
	index := n.raft.CommitIndex()
	if err := n.awaitConfirmed(ctx, deadline); err != nil {
		return 0, err
	}
	if n.raft.CurrentTerm() != term {
		return 0, fmt.Errorf("%w: %w", ErrNoLeader, ErrLeadershipLost)
	}
	return index, nil
}

func (n *Node) awaitConfirmed(ctx context.Context, deadline time.Time) error {
	if defect.SkipVerify {
		return nil
	}
	now := n.transport.now()
	select {
	case n.confirm <- struct{}{}:
	default: // somebody has asked, and has not been heard yet
	}
	ready := func() bool { return n.confirmedSince() >= now }
	return waitError(ctx, n.confirms.AwaitAt(ctx, time.Until(deadline), ready, purgatory.KeyPosition[line]{Key: lineConfirmed, Position: now}))
}
