package purgatory

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/delayedop/purgatory/internal/bounded"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/operation"
)

// refusals counts the operations that were not accepted, by reason.
type refusals struct{ closed, full, input atomic.Int64 }

// refuses reports whether p refuses every operation on so many keys.
func (p *DelayedOperationPurgatory[K]) refuses(keys int) bool {
	return keys == 0 || keys > operation.MaxKeys || p.draining.Load()
}

// refusal returns why op, on so many keys, is refused before it is tried.
func (p *DelayedOperationPurgatory[K]) refusal(op operation.Operation, keys int) error {
	switch {
	case machine.Find(op) == nil:
		return p.refuse(ErrNilOperation, "%T", op)
	case keys == 0:
		return p.refuse(ErrNoKeys, "%s", kindOf(op))
	case keys > operation.MaxKeys:
		return p.refuse(ErrTooManyKeys, "%d, the maximum is %d", keys, operation.MaxKeys)
	default:
		return p.refuse(ErrClosed, "%s", kindOf(op))
	}
}

// refuse counts a refusal and returns its error.
func (p *DelayedOperationPurgatory[K]) refuse(kind error, format string, args ...any) error {
	switch {
	case errors.Is(kind, ErrClosed):
		p.refused.closed.Add(1)
	case errors.Is(kind, ErrFull):
		p.refused.full.Add(1)
	default:
		p.refused.input.Add(1)
	}
	return p.errorf(kind, format, args...)
}

// elsewhere returns a text for an error: that m was submitted to another purgatory, or ""
// if it was submitted to p.
func (p *DelayedOperationPurgatory[K]) elsewhere(m *machine.Machine) string {
	if m.Owner() == p.id {
		return ""
	}
	return ", to another purgatory"
}

// reserve counts one more pending operation, unless the maximum are pending.
func (p *DelayedOperationPurgatory[K]) reserve() bool {
	return p.cfg.maxPending == 0 || bounded.Increment(&p.pending, int64(p.cfg.maxPending))
}

// release subtracts n operations that reserve has counted.
func (p *DelayedOperationPurgatory[K]) release(n int) {
	if p.cfg.maxPending > 0 {
		sched.Yield()
		p.pending.Add(int64(-n))
	}
}

// kindOf names op in errors and logs: by its type, or as "Await" or "AwaitRead" if op is
// the operation behind such a call.
func kindOf(op any) string {
	if w, ok := op.(interface{ waitsIn() string }); ok {
		return w.waitsIn()
	}
	return fmt.Sprintf("%T", op)
}
