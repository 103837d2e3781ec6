// Package operation is one delayed operation: what a user writes, what they
// embed, and the state machine that ends it exactly once.
//
// An embedder needs Operation, DelayedOperation and Outcome. Machine, Watch and
// List are for the packages watchers and purgatory, which do the watching.
package operation

import (
	"fmt"

	"github.com/delayedop/purgatory/timer"
)

// Operation is a request that waits until its condition is met or its timeout
// passes. A type becomes one by embedding DelayedOperation, by value, and
// writing these three methods:
//
//	type delayedProduce struct {
//		operation.DelayedOperation
//		…
//	}
//	func (d *delayedProduce) TryComplete() bool { … }
//	func (d *delayedProduce) OnComplete()       { … }
//	func (d *delayedProduce) OnExpiration()     { … }
//
// No lock of the purgatory is held while they run, and they may call anything on
// any purgatory; but what waits is not for callbacks: Await, Shutdown and, on the
// system's clock, AdvanceClock.
type Operation interface {
	// TryComplete reports whether the condition is met now. It may record
	// results. It is never run twice at once for one operation, and never
	// overlaps OnComplete or OnExpiration. It must not wait for anything: the
	// next check of the operation is left to the goroutine that runs this one.
	TryComplete() bool

	// OnComplete runs exactly once, when the operation has ended, however it
	// ended: see Outcome.
	OnComplete()

	// OnExpiration runs after OnComplete, if the operation has expired.
	OnExpiration()

	timer.Task

	machine() *Machine // only an embedded DelayedOperation has it
}

// DelayedOperation is the part of an Operation that the purgatory keeps: embed
// it by value, once; its zero value is ready to use. It is the memory of the
// whole wait: timer entry, watcher entry of the first key, state; so an
// operation on one key costs the one allocation that the user makes. It must not
// be copied, and is used once.
//
// Its methods are safe for concurrent use.
type DelayedOperation struct{ m Machine }

// Outcome returns how the operation ended; Pending until it has. Inside the
// callbacks, and from then on, it is final.
func (d *DelayedOperation) Outcome() Outcome { return d.m.Outcome() }

// Cause returns the cause given to Cancel or CancelForKey if the operation was
// cancelled, nil otherwise.
func (d *DelayedOperation) Cause() error { return d.m.cause() }

// RunTask is the timer's way in when the timeout has passed. It does nothing for
// anybody else.
func (d *DelayedOperation) RunTask(e *timer.TaskEntry) {
	if e == &d.m.entry {
		d.m.expire()
	}
}

func (d *DelayedOperation) machine() *Machine { return &d.m }

// Outcome is how an operation ended.
type Outcome uint8

// Outcomes. Every accepted operation ends with exactly one that is not Pending.
const (
	Pending   Outcome = iota // has not ended
	Satisfied                // TryComplete said yes
	Forced                   // ForceComplete
	Expired                  // its timeout passed
	Cancelled                // Cancel or CancelForKey, with a cause
	Closed                   // the purgatory closed

	Outcomes = iota // how many there are, Pending included
)

var names = [Outcomes]string{"pending", "satisfied", "forced", "expired", "cancelled", "closed"}

// String is "pending", "satisfied", "forced", "expired", "cancelled" or "closed".
func (o Outcome) String() string {
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}
