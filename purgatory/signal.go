package purgatory

import (
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
	"github.com/delayedop/purgatory/watchers"
)

// Signal is CheckAndComplete for a caller that holds locks of its own, or is in a
// hurry: it only marks key and returns, and a worker of the purgatory runs the check,
// and the callbacks. Signals of a key that come before its check begins make one
// check; one that comes during it makes another. None is lost. It takes one
// internal lock for a moment, allocates nothing, and may be called under any lock
// and from any callback. (It calls the executor of WithExecutor, if there is one, and
// the logger, if that refuses.)
//
// Use CheckAndComplete where the caller holds no lock that a callback might need
// and can afford to run the callbacks: it is cheaper, and what it completes is
// complete when it returns.
func (p *DelayedOperationPurgatory[K]) Signal(key K) { p.SignalUpTo(key, Everything) }

// SignalUpTo is CheckAndCompleteUpTo in the manner of Signal. Signals that coalesce
// make one check up to the highest position.
func (p *DelayedOperationPurgatory[K]) SignalUpTo(key K, position int64) {
	p.signal(key, p.watchers.Hash(key), position)
}

func (p *DelayedOperationPurgatory[K]) signal(key K, hash uint64, upTo int64) {
	if p.watchers.Shard(hash).Signal(key, hash, upTo) {
		p.signals.Kick()
	}
}

// working reports whether there is work for a signal worker.
func (p *DelayedOperationPurgatory[K]) working() bool {
	if p.watchers.Signalled() {
		return true
	}
	p.rescue.Lock()
	defer p.rescue.Unlock()
	return len(p.rescue.shards) > 0
}

// work is what a signal worker does: run callbacks that are stuck behind others, or
// the check of a signalled key.
func (p *DelayedOperationPurgatory[K]) work() bool {
	if s := p.takeRescue(); s != nil {
		s.Enter()
		p.exit(s)
		return true
	}
	c := p.checks.Get().(*check[K])
	s, n, more := p.watchers.TakeSignal(uint(p.turn.Add(1)), &c.cursor, c.ops[:])
	if s == nil {
		p.checks.Put(c)
		return false
	}
	if p.watchers.Signalled() {
		p.signals.Kick() // another worker can take the next
	}
	c.shard, c.n, c.more = s, n, more
	c.finish()
	return true
}

func (p *DelayedOperationPurgatory[K]) takeRescue() (s *watchers.Shard[K]) {
	p.rescue.Lock()
	defer p.rescue.Unlock()
	if n := len(p.rescue.shards); n > 0 {
		s = p.rescue.shards[n-1]
		p.rescue.shards = p.rescue.shards[:n-1]
	}
	return s
}

// Extend moves the deadline of a pending op to timeout from now, and reports whether
// it was in time: true means that op will not expire before the new deadline; false
// that it has ended, is expiring, or has not been accepted yet. A later deadline
// costs a clock reading and a lock for an instant, and leaves the wheel alone: make it
// the price of a heartbeat. An earlier one moves op in its wheel; zero or less expires it
// at once, on a worker.
func (p *DelayedOperationPurgatory[K]) Extend(op operation.Operation, timeout time.Duration) bool {
	if isNil(op) {
		return false
	}
	m := operation.Of(op)
	if !m.Accepted() {
		return false
	}
	return p.timer.Extend(m.Entry(), timer.Deadline(p.timer.Now(), timeout))
}
