package operation

import (
	"fmt"

	"github.com/delayedop/purgatory/internal/machine"
)

// Operation is a request that waits until its condition is met or its timeout passes. A type becomes one by embedding
// [DelayedOperation] by value and implementing these three methods.
//
// The purgatory holds no lock while they run. They may call any method that does not block, on any purgatory, with any
// key.
type Operation interface {
	// TryComplete reports whether the condition is met now. It may record results for OnComplete. It runs often, and must
	// not block: meanwhile nobody tries the other operations of the key. A panic and runtime.Goexit count as false.
	//
	// A check ends up to 128 operations of a key before it calls the first OnComplete. One that takes something here
	// gives it back in OnComplete, or where TryCompleteElseWatch returns an error: the purgatory may close after a
	// TryComplete that has returned true. For items that are handed to those who wait, see package queue.
	TryComplete() bool

	// OnComplete runs exactly once, after the operation has ended, whatever its [DelayedOperation.Outcome]; possibly before
	// TryCompleteElseWatch returns. One that blocks delays others that the same call has ended, or has yet to try.
	OnComplete()

	// OnExpiration runs after OnComplete if the operation has expired, and not otherwise.
	OnExpiration()

	embedded // only a type that embeds DelayedOperation implements this
}

type (
	embedded = machine.Embedded
	core     = machine.Core
)

// DelayedOperation is the part of an [Operation] that the purgatory uses: so an operation on one key is one allocation.
// Embed it by value, once; do not copy it. Its zero value is ready to use. Submit a pointer to your type, and give its methods pointer receivers: the compiler rejects a
// value with "method OnComplete has pointer receiver", and a type that embeds no DelayedOperation with "missing method
// embedOperationDelayedOperation".
//
// Its methods are safe for concurrent use and may be called from any callback.
type DelayedOperation struct{ core }

// Outcome returns how the operation ended, or [Pending]. From the beginning of OnComplete on it does not change.
func (d *DelayedOperation) Outcome() Outcome { return Outcome(machine.OfCore(&d.core).Outcome()) }

// Cause returns the error that Cancel or CancelForKey was given if the operation ended as [Cancelled], else nil.
func (d *DelayedOperation) Cause() error { return machine.OfCore(&d.core).Cause() }

// Outcome is how an operation ended.
type Outcome uint8

// Every accepted operation ends with exactly one of the outcomes other than Pending.
const (
	Pending   = Outcome(machine.Pending)   // the operation has not ended
	Satisfied = Outcome(machine.Satisfied) // TryComplete returned true
	Forced    = Outcome(machine.Forced)    // ForceComplete ended it
	Expired   = Outcome(machine.Expired)   // its timeout passed
	Cancelled = Outcome(machine.Cancelled) // Cancel or CancelForKey ended it, see DelayedOperation.Cause
	Closed    = Outcome(machine.Closed)    // the purgatory closed, or shut down

	NumOutcomes = machine.NumOutcomes // the number of outcomes, including Pending
)

var names = [NumOutcomes]string{"pending", "satisfied", "forced", "expired", "cancelled", "closed"}

// String returns the outcome's name in lower case, "satisfied" for example; "Outcome(n)" for a value that is none.
func (o Outcome) String() string {
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}
