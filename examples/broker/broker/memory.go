package broker

import (
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/examples/broker/memory"
)

// holdings are the two parts of a broker's memory: three quarters for the logs
// and for what groups know of their members, and a quarter for requests that are not answered and answers that are not sent.
// Requests wait for room to be read; a produce for which the logs have none is
// refused, and a fetch gets less.
type holdings struct {
	waits      *memory.Waits
	logs       *memory.Budget
	requests   *memory.Budget
	partitions atomic.Int64 // that share the logs' part
}

func newHoldings(limit int, waits *memory.Waits) *holdings {
	return &holdings{
		waits:    waits,
		logs:     memory.New("logs", limit-limit/4, nil),
		requests: memory.New("requests", limit/4, waits),
	}
}

// share is what a partition may keep of its old records when memory is short.
func (h *holdings) share() int {
	return int(h.logs.Limit() / max(1, h.partitions.Load()))
}

// shownHoldings are the holdings on the debug page: who waits for memory, under a
// name that says how much of it is taken.
type shownHoldings struct {
	*memory.Waits
	of *holdings
}

// Name says how much memory is taken.
func (s shownHoldings) Name() string {
	const mebi = 1 << 20
	return fmt.Sprintf("%s: logs %d of %d MiB, requests %d of %d MiB", s.Waits.Name(),
		s.of.logs.Used()/mebi, s.of.logs.Limit()/mebi, s.of.requests.Used()/mebi, s.of.requests.Limit()/mebi)
}

// reserveLocked takes memory for records that are about to be appended. Where there
// is none it drops the oldest that are committed, down to the partition's share;
// if that is not enough, the error is the one of a disk that is full.
func (p *partition) reserveLocked(size int) error {
	if !p.memory.logs.Take(size) {
		p.retainLocked(max(0, p.memory.share()-size))
		if !p.memory.logs.Take(size) {
			if !p.mu.full {
				p.config.Logger.Warn("records refused: the memory for logs is full", "topic", p.name, "partition", p.n, "limit", p.memory.logs.Limit())
			}
			p.mu.full = true
			return kerr.KafkaStorageError
		}
	}
	p.mu.full = false
	p.mu.counted += size
	return nil
}

// settleLocked makes what was taken for the log what it holds.
func (p *partition) settleLocked() {
	held := p.mu.log.Size()
	p.memory.logs.Force(held - p.mu.counted)
	p.mu.counted = held
}

// retainLocked drops the oldest records that are committed, until there are no more
// than limit bytes. Of the offsets topic all count: its newest and its oldest alike.
func (p *partition) retainLocked(limit int) {
	if p.name != offsetsTopic {
		p.mu.log.Retain(limit, p.mu.high)
	}
	p.settleLocked()
}

// shrink drops what is beyond the partition's share, which has become smaller as
// others came, if memory is short.
func (p *partition) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if logs := p.memory.logs; logs.Used() > logs.Limit()/2 {
		p.retainLocked(p.memory.share())
	}
}
