package purgatories

import (
	"sync/atomic"
	"time"
)

// alone is the standard library's timer and nothing else: an AfterFunc for each operation, stopped when the operation is
// forced or its position is reached. It knows no keys, so a check finds nobody. What a purgatory costs beside it is what
// keys, checks and callbacks cost, if they are not cheaper than the timers that they save.
type alone struct {
	started, ended tally // written by those who submit, and by those who end

	queue []queued // those with positions, in order; used by one goroutine
}

type tally struct {
	atomic.Int64
	_ [56]byte
}

type aloneOp struct {
	purgatory *alone
	lane      *Lane
	timer     *time.Timer
}

type queued struct {
	op       *aloneOp
	position int64
}

func newAlone() Purgatory { return new(alone) }

func (p *alone) Submit(l *Lane, timeout time.Duration, _ []string) Operation {
	return p.submit(l, timeout)
}

func (p *alone) submit(l *Lane, timeout time.Duration) *aloneOp {
	p.started.Add(1)
	op := &aloneOp{purgatory: p, lane: l}
	op.timer = time.AfterFunc(timeout, op.expire)
	return op
}

func (op *aloneOp) expire() {
	op.lane.Expired.Add(1)
	op.purgatory.ended.Add(1)
}

func (p *alone) Settle(*Lane) {}

func (p *alone) Probe(probe *Probe, timeout time.Duration, _ []string) {
	p.started.Add(1)
	time.AfterFunc(timeout, func() {
		p.ended.Add(1)
		probe.Expire()
	})
}

func (p *alone) Check(string) {}

func (p *alone) Force(op Operation) bool { return op.(*aloneOp).force() }

func (op *aloneOp) force() bool {
	if !op.timer.Stop() {
		return false
	}
	op.purgatory.ended.Add(1)
	op.lane.Complete()
	return true
}

func (p *alone) SubmitAt(l *Lane, timeout time.Duration, _ string, position int64) {
	p.queue = append(p.queue, queued{p.submit(l, timeout), position})
}

func (p *alone) CheckUpTo(_ string, position int64) {
	for len(p.queue) > 0 && p.queue[0].position <= position {
		p.queue[0].op.force()
		p.queue = p.queue[1:]
	}
}

func (p *alone) Pending() int { return int(p.started.Load() - p.ended.Load()) }
func (p *alone) Stale() int   { return -1 }
func (p *alone) Close()       {} // who is pending keeps its timer: there is nobody that knows it
