package purgatory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/delayedop/purgatory/internal/bounded"
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/observe"
	"github.com/delayedop/purgatory/operation"
)

// Errors, for errors.Is. New, a method that refuses an operation, and one whose wait ends
// without its condition return an error that wraps one of these and names the purgatory and
// the offending value. The cause of a context or of a cancellation it returns unchanged.
var (
	// ErrClosed: the purgatory is closed or is shutting down, or its timer has stopped (and the timeout is not NoTimeout).
	ErrClosed = operation.ErrClosed
	// ErrFull: as many operations are pending as WithMaxPending allows, or as many for the first key as
	// WithMaxPendingPerKey does, or the timer
	// holds as many entries as timer.WithMaxPending allows.
	ErrFull = operation.ErrFull
	// ErrNoKeys: an operation was submitted with no key, or a wait with neither a key nor a
	// timeout that passes.
	ErrNoKeys = errors.New("purgatory: no keys")
	// ErrTooManyKeys: an operation was submitted with more than operation.MaxKeys keys.
	ErrTooManyKeys = errors.New("purgatory: too many keys")
	// ErrNilOperation: the operation, or the function given to Await, is nil.
	ErrNilOperation = errors.New("purgatory: nil operation")
	// ErrUsed: the operation was submitted before. An operation is used once.
	ErrUsed = errors.New("purgatory: operation used twice")
	// ErrInvalidOption: an option of New is out of its range, or contradicts another one.
	ErrInvalidOption = errors.New("purgatory: invalid option")
	// ErrCancelled: CancelForKey or CancelMatching ended an Await with a nil cause, or
	// CompleteForKey, ForceComplete or [Wait.Stop] ended it.
	ErrCancelled = operation.ErrCancelled
	// ErrPending: a Wait has not ended.
	ErrPending = errors.New("purgatory: pending")
	// ErrExpired: Await's timeout has passed. It is a net.Error whose Timeout method
	// returns true, as callers of package net expect, and errors.Is reports that it is
	// context.DeadlineExceeded, as gRPC's status.FromContextError expects.
	ErrExpired = operation.ErrExpired
)

// failure is one of the errors above, and what it is about.
type failure struct {
	purgatory   string
	kind, about error
}

func (f *failure) Unwrap() []error { return []error{f.kind, f.about} }

func (f *failure) Error() string {
	return fmt.Sprintf("purgatory %q: %s: %v", f.purgatory, strings.TrimPrefix(f.kind.Error(), "purgatory: "), f.about)
}

// errorf returns a failure that is about what the format says. Use %w for the error that is its
// cause.
func (p *DelayedOperationPurgatory[K]) errorf(kind error, format string, args ...any) error {
	return &failure{p.name, kind, fmt.Errorf(format, args...)}
}

// refusals counts the operations that were not accepted, by reason.
type refusals struct{ closed, full, input atomic.Int64 }

// refuses reports whether p refuses every wait on so many keys: without one, its timeout has to
// pass. For other operations timeout is 0.
func (p *DelayedOperationPurgatory[K]) refuses(keys int, timeout time.Duration) bool {
	p.made()
	return keys == 0 && (timeout <= 0 || timeout == NoTimeout) || keys > operation.MaxKeys || p.Closed()
}

// refusal returns why op, on so many keys, is refused before it is tried.
func (p *DelayedOperationPurgatory[K]) refusal(op operation.Operation, keys int) error {
	switch {
	case machine.Find(op) == nil:
		return p.refuse(ErrNilOperation, "%s", nilText(op))
	case keys == 0 && !p.Closed():
		if kind := observe.WaitsIn(op); kind != "" {
			return p.refuse(ErrNoKeys, "%s without a key needs a timeout that passes, positive and not NoTimeout", kind)
		}
		return p.refuse(ErrNoKeys, "%T needs a key, under which a check finds it", op)
	case keys > operation.MaxKeys:
		return p.refuse(ErrTooManyKeys, "%d, the maximum is %d", keys, operation.MaxKeys)
	default:
		return p.refuse(ErrClosed, "%s", observe.Kind(op))
	}
}

// nilText says what is nil about op.
func nilText(op operation.Operation) string {
	if op == nil {
		return "the operation is nil"
	}
	return fmt.Sprintf("a %T that is nil, or embeds a nil pointer: embed operation.DelayedOperation by value", op)
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

// takePlace counts one more pending operation, unless as many are pending as WithMaxPending allows.
func (p *DelayedOperationPurgatory[K]) takePlace() bool {
	return p.cfg.maxPending == noBound || bounded.Increment(&p.places, int64(p.cfg.maxPending))
}

// freePlaces subtracts n operations that takePlace has counted.
func (p *DelayedOperationPurgatory[K]) freePlaces(n int) {
	if p.cfg.maxPending != noBound {
		p.places.Add(int64(-n))
	}
}

// made panics unless New has made p, and says so: the runtime would only report a nil pointer.
func (p *DelayedOperationPurgatory[K]) made() {
	switch {
	case p == nil:
		panic("purgatory: the purgatory is nil: make one with purgatory.New, and look at its error")
	case p.watchers == nil:
		panic("purgatory: the purgatory is a zero value: make one with purgatory.New")
	}
}

// mustContext panics if ctx is nil, and says what to do.
func mustContext(ctx context.Context, method string) {
	if ctx == nil {
		panic("purgatory: " + method + " was called with a nil context: use context.Background()")
	}
}
