package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/internal/defect"
	"github.com/delayedop/purgatory/examples/heavy/raftkv/kv"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// proposal waits until its entry is applied.
//
// Its position is its number. Proposals of one reign get their numbers in the order in which the engine gets them, the engine
// appends them in that order, and so they are applied in that order: a check up to the last number of a batch ends them all,
// and looks at nobody who waits further up.
type proposal struct {
	operation.DelayedOperation
	node  *Node
	reign uint64
	seq   uint64
	entry []byte

	stage    atomic.Uint32 // queued, and then submitted or withdrawn
	revision atomic.Uint64 // index of the entry, once it is applied
	done     chan struct{}
}

// The stages of a proposal.
const (
	queued uint32 = iota
	submitted
	withdrawn // nobody waits for it any more, and the engine never gets it
)

// TryComplete says yes when the entry has been applied, or when the reign is over, in which case it never may be.
func (p *proposal) TryComplete() bool {
	return p.revision.Load() != 0 || p.node.reign.Load() != p.reign
}

// OnComplete lets Propose return.
func (p *proposal) OnComplete() { close(p.done) }

// OnExpiration does nothing: the outcome says it.
func (p *proposal) OnExpiration() {}

// table finds proposals that wait by their number.
type table struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]*proposal
}

// Propose writes value under key, and returns the revision of the write. It has to be called on the leader: elsewhere it returns a
// [NotLeaderError]. After a [ProposalError] with MaybeWritten the write may have happened.
func (n *Node) Propose(ctx context.Context, key string, value []byte, timeout time.Duration) (revision uint64, err error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	if len(value) > n.cfg.MaxValue {
		return 0, fmt.Errorf("%w: a value of %d bytes, at most %d", ErrTooLarge, len(value), n.cfg.MaxValue)
	}
	return n.propose(ctx, kv.Command{Key: key, Value: value}, timeout)
}

func (n *Node) propose(ctx context.Context, c kv.Command, timeout time.Duration) (revision uint64, err error) {
	if err := checkTimeout(timeout); err != nil {
		return 0, err
	}
	p := &proposal{node: n, reign: n.reign.Load(), done: make(chan struct{})}
	if !leads(p.reign) {
		return 0, &NotLeaderError{n.Leader()}
	}
	if err := n.enqueue(p, c, timeout); err != nil {
		return 0, waitError(ctx, err)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		n.proposals.Cancel(p, context.Cause(ctx))
		<-p.done // at once: nothing that TryComplete does can block
	}
	n.table.forget(p)
	if r := p.revision.Load(); r != 0 {
		return r, nil
	}
	return 0, p.failure()
}

// enqueue gives p its number and its place in both queues, that of those who wait and that of the engine, in one order.
func (n *Node) enqueue(p *proposal, c kv.Command, timeout time.Duration) error {
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	n.table.last++
	p.seq = n.table.last
	c.ID = kv.ID{Origin: n.origin, Seq: p.seq}
	p.entry = c.Encode()
	n.table.waiting[p.seq] = p
	_, err := n.proposals.TryCompleteElseWatchAt(p, timeout, purgatory.KeyPosition[uint64]{Key: p.reign, Position: int64(p.seq)})
	if err != nil {
		delete(n.table.waiting, p.seq)
		return err
	}
	select {
	case n.submit <- p:
	default: // the engine takes nothing, and those who gave up still stand in the queue
		p.stage.Store(withdrawn)
		n.proposals.Cancel(p, ErrFull)
	}
	return nil
}

// failure says why p ended without a result. Withdrawing it here decides whether the engine gets it.
func (p *proposal) failure() error {
	cause := ErrDeadline
	switch p.Outcome() {
	case operation.Satisfied:
		cause = ErrLeadershipLost
	case operation.Cancelled:
		cause = p.Cause()
	case operation.Closed:
		cause = ErrClosed
	}
	if errors.Is(cause, ErrFull) {
		return ErrFull
	}
	p.stage.CompareAndSwap(queued, withdrawn)
	maybe := p.stage.Load() == submitted
	if defect.ClaimNotWritten {
		maybe = false
	}
	return &ProposalError{MaybeWritten: maybe, Cause: cause}
}

// submitAll gives proposals to the engine, in order. The engine may take its time, or block: nobody waits for this goroutine,
// and nobody waits for the future that it gets. What the engine refuses it refuses because the reign is over, and that ends
// everybody who waits in it.
func (n *Node) submitAll() {
	for {
		select {
		case p := <-n.submit:
			if p.stage.CompareAndSwap(queued, submitted) {
				n.raft.Apply(p.entry, 0)
			}
			p.entry = nil
		case <-n.quit:
			return
		}
	}
}

// applied says at which index a proposal of this process was applied.
type applied struct {
	seq, index uint64
	beginOf    uint64 // the term, if it is the first entry of one
}

// settle writes down the results of a batch, for those who still wait for them, and tells them: with one signal if all are of
// one reign, as they nearly always are.
func (n *Node) settle(own []applied) {
	var reign, up uint64
	tell := func() {
		if up > 0 {
			n.proposals.SignalUpTo(reign, int64(up))
		}
	}
	for _, a := range own {
		if a.beginOf > 0 {
			n.begun.Store(a.beginOf)
		}
		p := n.table.find(a.seq)
		if p == nil {
			continue
		}
		p.revision.Store(a.index)
		if p.reign != reign {
			tell()
		}
		reign, up = p.reign, a.seq
	}
	tell()
}

func (t *table) find(seq uint64) *proposal {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting[seq]
}

func (t *table) forget(p *proposal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, p.seq)
}
