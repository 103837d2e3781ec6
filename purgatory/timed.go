package purgatory

import (
	"context"
	"fmt"
	"runtime/trace"
	"time"

	"github.com/delayedop/purgatory/operation"
)

// Regions of execution traces (runtime/trace); the name of the purgatory is logged
// inside, in category "purgatory".
const (
	regionCheck     = "purgatory.check"
	regionCallbacks = "purgatory.callbacks"
)

// traced runs f as a region of the execution trace. For when tracing is on: f costs an
// allocation.
func (p *DelayedOperationPurgatory[K]) traced(region string, f func()) {
	ctx := context.Background()
	defer trace.StartRegion(ctx, region).End()
	trace.Log(ctx, "purgatory", p.name)
	f()
}

// try calls TryComplete of an operation that waits.
func (p *DelayedOperationPurgatory[K]) try(op operation.Operation) bool {
	if p.cfg.slow > 0 {
		return p.timedTry(op)
	}
	return op.TryComplete()
}

func (p *DelayedOperationPurgatory[K]) onComplete(m *operation.Machine) {
	if p.cfg.slow > 0 {
		p.timedComplete(m.Operation())
		return
	}
	m.Operation().OnComplete()
}

func (p *DelayedOperationPurgatory[K]) onExpiration(m *operation.Machine) {
	if p.cfg.slow > 0 {
		defer p.noteSlow(m.Operation(), "OnExpiration", time.Now()) // deferred: a panic may be slow too
	}
	m.Operation().OnExpiration()
}

func (p *DelayedOperationPurgatory[K]) timedComplete(op operation.Operation) {
	defer p.noteSlow(op, "OnComplete", time.Now())
	op.OnComplete()
}

func (p *DelayedOperationPurgatory[K]) timedTry(op operation.Operation) bool {
	defer p.noteSlow(op, "TryComplete", time.Now())
	return op.TryComplete()
}

func (p *DelayedOperationPurgatory[K]) noteSlow(op operation.Operation, callback string, began time.Time) {
	if elapsed := time.Since(began); elapsed > p.cfg.slow {
		p.logger.Warn(EventSlow, "purgatory", p.name, "operation", fmt.Sprintf("%T", op),
			"callback", callback, "elapsed", elapsed, "outcome", operation.Of(op).Outcome().String())
	}
}
