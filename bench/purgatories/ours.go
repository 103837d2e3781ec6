package purgatories

import (
	"time"

	"github.com/delayedop/purgatory/bench/timers"
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// ours is the library.
type ours struct {
	timers.Rest
	purgatory *purgatory.DelayedOperationPurgatory[string]
}

// NewOurs starts the library with options.
func NewOurs(opts ...purgatory.Option) Purgatory {
	p, err := purgatory.New[string]("bench", opts...)
	if err != nil {
		panic(err)
	}
	return &ours{purgatory: p}
}

// laneOp is an embedder's operation: the embedded state and eight bytes of its own.
type laneOp struct {
	operation.DelayedOperation
	lane *Lane
}

func (o *laneOp) TryComplete() bool { return o.lane.Ready() }
func (o *laneOp) OnComplete() {
	if o.Outcome() != operation.Expired {
		o.lane.Complete()
	}
}
func (o *laneOp) OnExpiration() { o.lane.Expire() }

func (p *ours) Submit(l *Lane, timeout time.Duration, keys []string) Operation {
	op := &laneOp{lane: l}
	if _, err := p.purgatory.TryCompleteElseWatch(op, timeout, keys...); err != nil {
		panic(err)
	}
	return op
}

func (p *ours) SubmitAt(l *Lane, timeout time.Duration, key string, position int64) {
	at := purgatory.KeyPosition[string]{Key: key, Position: position}
	if _, err := p.purgatory.TryCompleteElseWatchAt(&laneOp{lane: l}, timeout, at); err != nil {
		panic(err)
	}
}

func (p *ours) Settle(*Lane)            {}
func (p *ours) Check(key string)        { p.purgatory.CheckAndComplete(key) }
func (p *ours) Force(op Operation) bool { return p.purgatory.ForceComplete(op.(*laneOp)) }
func (p *ours) Pending() int            { return p.purgatory.NumDelayed() }

func (p *ours) CheckUpTo(key string, position int64) {
	p.purgatory.CheckAndCompleteUpTo(key, position)
}

func (p *ours) Close() {
	if err := p.purgatory.Close(); err != nil {
		panic(err)
	}
}
