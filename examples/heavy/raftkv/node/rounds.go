package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// rounds are this node's requests for the leader's index. All reads that come while one is under way share the next one: it
// begins after they came, so what it returns covers what they must see.
type rounds struct {
	poke    chan struct{} // capacity 1: somebody waits for a round
	started atomic.Int64  // number of the latest round
	ended   atomic.Int64  // number of the latest round that has an index
	readers atomic.Int64  // reads that wait for a round
	index   atomic.Uint64 // what the latest round has returned; later rounds never return less
	why     atomic.Pointer[error]
}

// The pace of rounds.
const (
	roundTimeout = 500 * time.Millisecond // a leader that does not answer within it may be none any more
	roundPause   = 10 * time.Millisecond  // after a round that failed
)

// readIndex waits for a round that has not begun yet, and returns its index. Rounds that fail, for want of a leader above all, are
// repeated until the deadline.
func (n *Node) readIndex(ctx context.Context, deadline time.Time) (uint64, error) {
	r := &n.rounds
	r.readers.Add(1) // first: from then on a round that fails is followed by another one
	defer r.readers.Add(-1)
	round := r.started.Load() + 1
	r.ask()
	err := n.await(ctx, deadline, lineRounds, round, func() bool { return r.ended.Load() >= round })
	if err != nil {
		if why := r.why.Load(); why != nil && errors.Is(err, ErrDeadline) {
			err = errors.Join(err, *why)
		}
		return 0, err
	}
	return r.index.Load(), nil
}

func (r *rounds) ask() {
	select {
	case r.poke <- struct{}{}:
	default: // the round that was asked for has not begun yet
	}
}

// runRounds makes rounds while somebody asks for them.
func (n *Node) runRounds() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.wg.Go(func() {
		<-n.quit
		cancel()
	})
	r := &n.rounds
	for {
		select {
		case <-r.poke:
		case <-n.quit:
			return
		}
		round := r.started.Add(1)
		index, err := n.askLeader(ctx)
		if err == nil {
			r.index.Store(max(index, r.index.Load()))
			r.why.Store(nil)
			r.ended.Store(round)
			n.positions.SignalUpTo(lineRounds, round)
			continue
		}
		r.why.Store(&err)
		select {
		case <-time.After(roundPause):
		case <-n.quit:
			return
		}
		if r.readers.Load() > 0 {
			r.ask()
		}
	}
}

// askLeader returns an index that covers what was committed when it was called.
func (n *Node) askLeader(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	leader := n.Leader()
	switch leader.ID {
	case "":
		return 0, ErrNoLeader
	case n.cfg.ID:
		return n.LeaderIndex(ctx, roundTimeout)
	}
	return n.remote.LeaderIndex(ctx, leader)
}
