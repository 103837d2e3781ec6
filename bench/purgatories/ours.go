package purgatories

import (
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// ours is the library with its defaults.
type ours struct {
	purgatory *purgatory.DelayedOperationPurgatory[string]
}

func newOurs() Purgatory { return OursWith().New() }

// OursWith is the library with options.
func OursWith(opts ...purgatory.Option) Peer {
	return Peer{Name: Ours, New: func() Purgatory {
		p, err := purgatory.New[string]("bench", opts...)
		if err != nil {
			panic(err)
		}
		return &ours{purgatory: p}
	}}
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
func (o *laneOp) OnExpiration() { o.lane.Expired.Add(1) }

type probeOp struct {
	operation.DelayedOperation
	probe *Probe
}

func (o *probeOp) TryComplete() bool { return false }
func (o *probeOp) OnComplete()       {}
func (o *probeOp) OnExpiration()     { o.probe.Expire() }

func (p *ours) Submit(l *Lane, timeout time.Duration, keys []string) Operation {
	op := &laneOp{lane: l}
	if _, err := p.purgatory.TryCompleteElseWatch(op, timeout, keys...); err != nil {
		panic(err)
	}
	return op
}

func (p *ours) Settle(*Lane) {}

func (p *ours) Probe(probe *Probe, timeout time.Duration, keys []string) {
	if _, err := p.purgatory.TryCompleteElseWatch(&probeOp{probe: probe}, timeout, keys...); err != nil {
		panic(err)
	}
}

func (p *ours) Check(key string)        { p.purgatory.CheckAndComplete(key) }
func (p *ours) Force(op Operation) bool { return p.purgatory.ForceComplete(op.(*laneOp)) }
func (p *ours) Pending() int            { return p.purgatory.NumDelayed() }
func (p *ours) AtRest() bool            { return p.purgatory.Inspect(0, 0).Wheels.Young.Entries == 0 }

func (p *ours) Close() {
	if err := p.purgatory.Close(); err != nil {
		panic(err)
	}
}

// Ordered is what a peer has that knows positions.
type Ordered interface {
	SubmitAt(l *Lane, timeout time.Duration, key string, position int64)
	CheckUpTo(key string, position int64)
}

func (p *ours) SubmitAt(l *Lane, timeout time.Duration, key string, position int64) {
	op := &laneOp{lane: l}
	at := purgatory.KeyPosition[string]{Key: key, Position: position}
	if _, err := p.purgatory.TryCompleteElseWatchAt(op, timeout, at); err != nil {
		panic(err)
	}
}

func (p *ours) CheckUpTo(key string, position int64) {
	p.purgatory.CheckAndCompleteUpTo(key, position)
}
