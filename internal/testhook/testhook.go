// Package testhook has the functions by which package purgatorytest follows what a purgatory does.
package testhook

import (
	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
)

// Hook is what a purgatory calls. No function may be nil, and none but Expire may block. A purgatory
// without a Hook pays one comparison where it would call it.
type Hook struct {
	// Called is called on the goroutine that checks or signals a key up to a position, before anything is done.
	Called func(key any, upTo int64, signal bool)

	// Walk is called with 1 before a goroutine goes over the operations of a key, to try or to end
	// them, and with -1 when it has.
	Walk func(key any, n int)

	// Expire is called by the goroutine that holds an operation whose timeout has passed. If it
	// returns true, TryComplete has returned true, and the operation ends as satisfied.
	Expire func(e *Expiring) (met bool)

	// Refuse reports whether an operation whose condition its first try has met is refused, as if the purgatory were closed.
	Refuse func() bool

	// Await is called on a goroutine that is about to block until its wait has ended. It may panic.
	Await func()

	// Registered reports whether the calls that have registered the pending operations have let go of them. The purgatory sets it.
	Registered func() bool
	// Idle reports whether no signal waits and no signal worker runs. The purgatory sets it.
	Idle func() bool
}

// Expiring is an operation that is about to end as expired. The caller of Expire holds it.
type Expiring struct {
	*machine.Machine
	Name      func() string // its type
	Keys      []any
	Positions []int64 // of Keys

	Panicked guard.Handler // of a panic in TryComplete
}
