// Package inside has what packages of this module ask a purgatory beside its exported methods. Package purgatory sets
// the functions when the program begins. Their argument p is a *purgatory.DelayedOperationPurgatory[K] of any K.
package inside

import (
	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/timer"
)

var (
	// Registering reports whether an operation of p is pending that its goroutine has not registered to the end.
	Registering func(p any) bool

	// Timer returns the timer of p.
	Timer func(p any) timer.Timer

	// Drive makes sure that a goroutine drives the timer of p, as for an operation with a timeout that passes.
	Drive func(p any)

	// Expire ends op, which has no timeout of its own, as expired: what [purgatory.DelayedOperationPurgatory.Cancel] does,
	// with another outcome.
	Expire func(p any, op operation.Operation) bool
)
