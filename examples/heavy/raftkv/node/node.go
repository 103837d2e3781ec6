// Package node is one member of a replicated key-value store: hashicorp/raft as it is, and in front of it purgatories in which
// calls wait for a position.
//
//	call       waits for                                     purgatory, key, position        told by
//	Propose    its entry to be applied                       proposals, reign, number        the apply loop
//	Read       a round of read-index requests to end         positions, rounds, round        the round
//	           a majority to confirm the leader (leader)     confirms, confirmed, time       replies to heartbeats
//	           this node to have applied the leader's index  positions, applied, index       the apply loop
//	Watch      a later revision of a key                     watches, the key, revision      the apply loop
//
// Every wait has its own deadline, whatever the engine does: no read or write waits for a future of it. The apply loop only
// signals (SignalUpTo), once for a batch and once for each key that somebody may watch: callbacks run on the purgatory's workers.
package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/kv"
	"github.com/delayedop/purgatory/purgatory"
)

// line is what calls wait for a position on. It is a uint64 as the keys of proposals are: the compiler then makes one copy of
// the purgatory's code for both, in this package and in each that imports it.
type line uint64

const (
	lineRounds    line = iota // read-index rounds that have ended
	lineApplied               // log indexes that have been applied
	lineConfirmed             // times since which the leadership is confirmed
)

// Node is a member that runs. It is safe for concurrent use.
type Node struct {
	cfg    Config
	origin uint64 // of this process, in the ids of proposals
	store  *kv.Store

	mux       *mux
	transport *confirming
	folder    *folder
	raft      *raft.Raft
	runs      atomic.Bool // raft is set: the engine calls back before it is
	remote    *Remote

	proposals *purgatory.Purgatory[uint64]
	positions *purgatory.Purgatory[line]
	watches   *purgatory.Purgatory[string]
	// confirms has those who wait on lineConfirmed. Reads wait for them, so reads that fill positions must not keep them out.
	confirms *purgatory.Purgatory[line]

	// reign is odd while this node leads, and grows by one whenever that changes.
	reign atomic.Uint64
	// begun is the latest term in which this node, as the leader, has applied the first entry of its own.
	begun atomic.Uint64

	restored atomic.Int64 // snapshots

	table   table
	submit  chan *proposal
	rounds  rounds
	confirm chan struct{} // capacity 1: ask for a confirmation of the leadership
	joining chan struct{} // capacity 1: full while a member is being added

	quit    chan struct{}
	wg      sync.WaitGroup
	closing sync.Once
	closed  error
}

// Open starts a node. It has to be closed.
func Open(cfg Config) (*Node, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, origin: rand.Uint64(), store: kv.New(),
		submit: make(chan *proposal, cfg.MaxPending), confirm: make(chan struct{}, 1), joining: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	n.rounds.poke = make(chan struct{}, 1)
	n.table.waiting = make(map[uint64]*proposal)
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) open() (err error) {
	options := []purgatory.Option{purgatory.WithMaxPending(n.cfg.MaxPending), purgatory.WithLogger(n.cfg.Logger)}
	if n.proposals, err = purgatory.New[uint64]("proposals", options...); err != nil {
		return err
	}
	if n.positions, err = purgatory.New[line]("positions", options...); err != nil {
		return err
	}
	if n.watches, err = purgatory.New[string]("watches", append(options, purgatory.WithTimeoutsExpected())...); err != nil {
		return err
	}
	if n.confirms, err = purgatory.New[line]("confirms", options...); err != nil {
		return err
	}
	logs := engineLog(n.cfg.Logger)
	if n.folder, err = openFolder(n.cfg.Folder, n.cfg.ID, len(n.cfg.Bootstrap) > 0 || n.cfg.Join, logs); err != nil {
		return err
	}
	if n.mux, err = listen(n.cfg.Address, n.cfg.Routes); err != nil {
		return err
	}
	n.remote = newRemote(n.mux)
	n.transport = newConfirming(raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: side{n.mux, n.mux.engine}, MaxPool: 3, Timeout: 10 * n.cfg.Heartbeat, Logger: logs,
		// No pipelining: it can leave the goroutine that replicates to a member blocked for ever (hashicorp/raft #612), which
		// then neither replicates nor ends.
		MaxRPCsInFlight: 1,
	}))
	n.transport.onReply = n.tellConfirmed
	return n.startEngine(logs)
}

func (n *Node) startEngine(logs hclog.Logger) error {
	notify := make(chan bool, 16)
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.cfg.ID)
	c.HeartbeatTimeout, c.ElectionTimeout = n.cfg.Heartbeat, n.cfg.Heartbeat
	c.LeaderLeaseTimeout = n.cfg.Heartbeat
	c.CommitTimeout = 10 * time.Millisecond
	c.MaxAppendEntries, c.BatchApplyCh = 256, true
	c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs = n.cfg.SnapshotThreshold, n.cfg.SnapshotInterval, n.cfg.TrailingLogs
	c.NotifyCh, c.Logger = notify, logs

	if err := raft.ValidateConfig(c); err != nil {
		return fmt.Errorf("%w: %w", errConfig, err)
	}
	var store raft.LogStore = n.folder.logs
	if n.cfg.wrapLog != nil {
		store = n.cfg.wrapLog(store)
	}
	cached, err := raft.NewLogCache(512, store)
	if err != nil {
		return err
	}
	if err := n.bootstrap(c); err != nil {
		return err
	}
	if err := n.folder.seal(n.cfg.Folder, n.cfg.ID); err != nil {
		return err
	}
	n.raft, err = raft.NewRaft(c, (*machine)(n), cached, n.folder.logs, n.folder.snapshots, n.transport)
	if err != nil {
		return fmt.Errorf("%w %s: %w", errFolder, n.cfg.Folder, err)
	}
	n.runs.Store(true)
	n.wg.Go(func() { n.follow(notify) })
	n.wg.Go(n.submitAll)
	n.wg.Go(n.runRounds)
	n.wg.Go(n.runConfirmations)
	return nil
}

// bootstrap writes the first configuration into a new folder's log.
func (n *Node) bootstrap(c *raft.Config) error {
	if len(n.cfg.Bootstrap) == 0 {
		return nil
	}
	var first raft.Configuration
	for _, m := range n.cfg.Bootstrap {
		first.Servers = append(first.Servers, raft.Server{
			ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Address), Suffrage: raft.Voter,
		})
	}
	err := raft.BootstrapCluster(c, n.folder.logs, n.folder.logs, n.folder.snapshots, n.transport, first)
	if errors.Is(err, raft.ErrCantBootstrap) { // done before, by a process that ended before it sealed the folder
		return nil
	}
	return err
}

// patience is how long Close gives the engine to stop.
const patience = 10 * time.Second

// Close answers every call that waits, and stops the node. It may be called again.
func (n *Node) Close() error {
	n.closing.Do(func() { n.closed = n.close() })
	return n.closed
}

func (n *Node) close() error {
	n.EndWaits()
	close(n.quit)
	if n.raft != nil {
		stopped := make(chan error, 1)
		go func() { stopped <- n.raft.Shutdown().Error() }()
		select {
		case err := <-stopped:
			if err != nil {
				return err
			}
		case <-time.After(patience):
			stacks := make([]byte, 1<<20)
			n.cfg.Logger.Error("the engine does not stop", "stacks", string(stacks[:runtime.Stack(stacks, true)]))
			return fmt.Errorf("raftkv: the engine did not stop within %v", patience)
		}
	}
	if n.transport != nil {
		n.transport.CloseStreams()
		n.transport.Close()
	}
	if n.mux != nil {
		n.mux.Close()
	}
	if n.remote != nil {
		n.remote.close()
	}
	n.wg.Wait()
	if n.folder == nil {
		return nil
	}
	return n.folder.logs.Close()
}

// EndWaits closes the purgatories: every call that waits is answered, and none waits from then on.
func (n *Node) EndWaits() {
	if n.proposals != nil {
		n.proposals.Close()
	}
	if n.positions != nil {
		n.positions.Close()
	}
	if n.watches != nil {
		n.watches.Close()
	}
	if n.confirms != nil {
		n.confirms.Close()
	}
}

// checkTimeout refuses what is not within (0, MaxTimeout].
func checkTimeout(d time.Duration) error {
	if d <= 0 || d > MaxTimeout {
		return fmt.Errorf("%w: %v is not within 0 and %v", ErrBadTimeout, d, MaxTimeout)
	}
	return nil
}

// await waits until ready says yes, at a position of a line.
func (n *Node) await(ctx context.Context, deadline time.Time, l line, position int64, ready func() bool) error {
	at := purgatory.KeyPosition[line]{Key: l, Position: position}
	return waitError(ctx, n.positions.AwaitAt(ctx, time.Until(deadline), ready, at))
}
