package purgatories

import (
	"sync/atomic"
	"time"
)

// timersOnly is the standard library's part of a purgatory written by hand: an object and an AfterFunc for each operation,
// stopped when the operation is forced or its position is reached. It knows no keys, so a check finds nobody.
type timersOnly struct {
	started, ended tally // written by those who submit, and by those who end

	queue []queued // those with positions, in order; used by one goroutine
}

type tally struct {
	atomic.Int64
	_ [56]byte
}

type timersOp struct {
	purgatory *timersOnly
	lane      *Lane
	timer     *time.Timer
}

type queued struct {
	op       Operation
	position int64
}

func (p *timersOnly) Submit(l *Lane, timeout time.Duration, _ []string) Operation {
	p.started.Add(1)
	op := &timersOp{purgatory: p, lane: l}
	op.timer = time.AfterFunc(timeout, op.expire)
	return op
}

func (op *timersOp) expire() {
	op.purgatory.ended.Add(1)
	op.lane.Expire()
}

func (p *timersOnly) Force(o Operation) bool {
	op := o.(*timersOp)
	if !op.timer.Stop() {
		return false
	}
	p.ended.Add(1)
	op.lane.Complete()
	return true
}

func (p *timersOnly) SubmitAt(l *Lane, timeout time.Duration, _ string, position int64) {
	p.queue = append(p.queue, queued{p.Submit(l, timeout, nil), position})
}

func (p *timersOnly) CheckUpTo(_ string, position int64) {
	for len(p.queue) > 0 && p.queue[0].position <= position {
		p.Force(p.queue[0].op)
		p.queue[0].op = nil
		p.queue = p.queue[1:]
	}
}

func (p *timersOnly) Settle(*Lane) {}
func (p *timersOnly) Check(string) {}
func (p *timersOnly) Pending() int { return int(p.started.Load() - p.ended.Load()) }
func (p *timersOnly) Close()       {}
