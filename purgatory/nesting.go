package purgatory

import (
	"unsafe"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
)

// nesting answers one question: may a goroutine run user code on the stack that it has? It
// must not if the stack is deep: an OnComplete may complete the next operation, whose
// OnComplete completes the next, and so on. And a check must not be made inside a TryComplete:
// each of a key's operations may check another key from its TryComplete, whose operations
// check the next, so that checks multiply.
//
// Only the stack tells, and to look at it takes longer than most checks: 0.5 µs for 5 frames,
// 12 µs for 400. So a goroutine looks if one of two signs says that calls may be nested.
//
//  1. Another goroutine is inside the gate that it enters, or the goroutine itself is. Every
//     level of a chain enters a gate and leaves it only when the levels above have returned. So
//     after at most as many levels as there are gates, 512, one of them finds its gate occupied.
//     Beside a crowd of blocked callbacks each completion would look, and take four times as
//     long; so after 64 looks only one goroutine in eight looks, until a look finds a deep stack.
//  2. Many tries were in vain. Checks that multiply in a graph of keys without a cycle may
//     enter each gate once, but make ever more tries. A look comes after 64 tries of a
//     shard, each time their number has doubled, and at last for each 4,096: 0.3 ns for a try.
//     A registration, which makes one try or two, looks if its operation's address is one of
//     those, one in 512, that [sched.Picks] picks.
//
// When a look has found a check or a registration inside a TryComplete, every later one of the
// purgatory looks.
type nesting struct {
	found    sched.Bool   // calls inside a TryComplete were found
	occupied sched.Uint32 // looks because a gate was occupied, up to firstLooks
}

const (
	firstLooks = 64
	firstTries = 64
	everyTries = 4096
)

// look looks at the stack of the calling goroutine.
func (n *nesting) look() (deep, inTry bool) {
	deep, inTry = machine.Nesting()
	if inTry && !n.found.Load() {
		n.found.Store(true)
	}
	if deep {
		n.occupied.Store(0) // a chain: the next completions look again
	}
	return deep, inTry
}

// occupiedGate is called by a goroutine that is not alone in a gate, and reports whether it
// has to look.
func (n *nesting) occupiedGate() bool {
	if n.occupied.Load() < firstLooks { // a crowd only reads the counter
		n.occupied.Add(1)
		return true
	}
	return sched.Dice(8) == 0 // random: a chain and others that take turns evade a pattern
}

// afterTries is called when a shard has seen run tries, the last tries of which a check has
// made, some of them in vain. It looks now and then.
func (n *nesting) afterTries(run, tries int64) {
	before := run - tries
	// The exclusive or exceeds before if the number has one digit more, in binary.
	if run >= firstTries && run^before > min(before, everyTries-1) && !n.found.Load() {
		_, _ = n.look()
	}
}

// forbidsCheck reports whether a check must not be made on this goroutine.
func (n *nesting) forbidsCheck() bool {
	if !n.found.Load() {
		return false
	}
	deep, inTry := n.look()
	return deep || inTry
}

// forbidsRegistration reports whether a registration must not try m on this goroutine, because
// each TryComplete may register the next operation.
func (n *nesting) forbidsRegistration(m *machine.Machine) bool {
	if !n.found.Load() && !sched.Picks(unsafe.Pointer(m)) {
		return false
	}
	deep, inTry := n.look()
	return deep && inTry
}
