// Package machine is the state machine that ends an operation exactly once, the operation's watches, and the
// lists that these stand in.
package machine

import (
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/identity"
	"github.com/delayedop/purgatory/internal/sched"
)

// Machine is the state machine of one operation. It is safe for concurrent use, but for what only the holder may call.
//
// Busy means that one goroutine, the holder, tries the operation or ends it. There is no mutex: nobody waits
// for a holder, but sets a mark in the state word and goes on (docs/internals/decisions.md#a-state-word):
//
//	         Begin              Release                 Settle
//	new ───────────────► busy ◄─────────► pending   busy ──────► ended
//	                      │  Acquire, Claim
//	                      ├ again: "state has changed, try again"  (set by Acquire)
//	                      └ wish:  "end it with this outcome"       (set by Claim)
//
// No completion is lost:
//
//  1. A goroutine that changes state does so before it calls Acquire.
//  2. If Acquire finds the operation pending, its caller becomes the holder and tries it with the change
//     visible.
//  3. If Acquire finds a holder, it sets again with a compare-and-swap on the word that says busy, so the
//     holder has not let go.
//  4. The only way to let go is Release, a compare-and-swap. It fails after 3: the holder tries again, or clears
//     the mark as it lets go, and has a walk try. (A flag beside a lock fails here: KAFKA-8334.)
//
// An operation ends once: only the holder ends it, there is one holder at a time, and no transition leads out
// of ended.
type Machine struct {
	// The operation's entry in the timer, whose word is the state word. It must be the first field: expire and
	// package purgatory convert pointers.
	entry entry.Entry

	op    Operation     // that the machine is part of; constant from Begin on
	start time.Duration // when the operation was accepted, on the timer's clock, plus 1 ns; 0 before

	// While the operation waits, tail points to the first Extra, nil if there is none; after it was cancelled, to the
	// cause, an error. It belongs to the holder. See docs/internals/decisions.md#112-bytes.
	tail unsafe.Pointer

	first Watch // of the first key: an operation on one key needs no second allocation
}

// The state word, from the lowest bit: the binding of the entry, with the purgatory to which the operation was
// submitted, so that Claim checks it and claims in one step; the phase, the marks, and the fields below. A new
// operation has 0.
const (
	phaseShift   = 32
	phasePending = 1 << phaseShift
	phaseBusy    = 2 << phaseShift
	phaseEnded   = 3 << phaseShift
	phaseMask    = 3 << phaseShift

	again = 1 << 34

	wishShift    = 35 // the wish, an Outcome; Pending means that there is none
	wishMask     = 7 << wishShift
	outcomeShift = 38 // an Outcome: how the holder will end the operation, or how it has ended
	outcomeMask  = 7 << outcomeShift
	accepted     = 1 << 41 // set by the first release, cleared by Settle
	checked      = 1 << 42 // set by Acquire: a check has come to the operation
)

// Operation returns the operation that m is part of, after Begin.
func (m *Machine) Operation() Operation { return m.op }

// Entry returns the operation's entry in the timer.
func (m *Machine) Entry() *entry.Entry { return &m.entry }

func (m *Machine) word() *sched.Uint64 { return &m.entry.Word }

func init() { entry.Expire = expire }

// expire ends the operation that e is part of. The conversion is safe: only Begin makes an entry an operation's, the
// first field of a Machine.
func expire(e *entry.Entry) {
	m := (*Machine)(unsafe.Pointer(e))
	if held, _ := m.Claim(Expired, m.Owner()); held {
		m.End()
	}
}

// End has m, which is held and waits, ended by the function of its first list.
func (m *Machine) End() { m.first.List.end(m) }

var _ [-unsafe.Offsetof(Machine{}.entry)]struct{} // fails to compile unless entry is the first field

// Start returns when the operation was accepted, on the timer's clock; less than 0 if it was not.
func (m *Machine) Start() time.Duration { return m.start - 1 }

// SetStart is for the holder, before it links any Watch.
func (m *Machine) SetStart(now time.Duration) { m.start = now + 1 }

// Owner returns the identity of the purgatory to which the operation was submitted, 0 if it is new.
func (m *Machine) Owner() uint32 { return identity.In(m.word().Load()) }

// Begin makes the caller the holder of op, whose machine is m, in the purgatory with this identity. It returns false
// if op is not new.
func (m *Machine) Begin(op Operation, id uint32) bool {
	if !m.word().CompareAndSwap(0, phaseBusy|m.entry.OperationBinding(id)) {
		return false
	}
	m.op = op
	return true
}

// Refuse ends a held operation that stands in no list, with the outcome Pending. The calls that have set marks have
// reported that they ended nothing.
func (m *Machine) Refuse() { m.word().Store(phaseEnded | m.word().Load()&identity.Half) }

// Acquire makes the caller the holder of a pending operation, to try it. Another holder is told to try again.
func (m *Machine) Acquire() (held bool) {
	for {
		word := m.word().Load()
		next := word | again | checked
		switch word & phaseMask {
		case phasePending:
			next = word&^phaseMask | phaseBusy | checked
		case phaseBusy:
			// If the mark is set, the holder clears it before it tries again, and sees the caller's change, too.
		default:
			return false
		}
		if m.word().CompareAndSwap(word, next) {
			return word&phaseMask == phasePending
		}
	}
}

// Claim makes the caller the holder of a pending operation of owner, to end it with o. Another holder gets o as the
// wish to carry out when its try returns false, unless it has one.
func (m *Machine) Claim(o Outcome, owner uint32) (held, wished bool) {
	for {
		word := m.word().Load()
		switch {
		case identity.In(word) != owner:
			return false, false
		case word&phaseMask == phasePending:
			if m.word().CompareAndSwap(word, word&^phaseMask|phaseBusy|uint64(o)<<outcomeShift) {
				return true, false
			}
		case word&phaseMask == phaseBusy && word&(wishMask|outcomeMask) == 0:
			if m.word().CompareAndSwap(word, word|uint64(o)<<wishShift) {
				return false, true
			}
		default:
			return false, false
		}
	}
}

// Checked reports whether Acquire has been called.
func (m *Machine) Checked() bool { return m.word().Load()&checked != 0 }

// Asked tells the holder whether Acquire has been called meanwhile.
func (m *Machine) Asked() bool { return m.word().Load()&again != 0 }

// ReleaseUnmarked is Release if there is no mark. Otherwise it returns false.
func (m *Machine) ReleaseUnmarked() bool {
	word := m.word().Load()
	return word&(again|wishMask) == 0 && m.word().CompareAndSwap(word, word&^phaseMask|phasePending|accepted)
}

// Release releases a held operation whose try returned false, unless a mark tells its holder to end it with the wish,
// which is its outcome now, or to try again. Without retry, tryAgain says that m is released and a walk must try it.
func (m *Machine) Release(retry bool) (end, tryAgain bool) {
	for {
		word := m.word().Load()
		assertHeld(word)
		switch {
		case word&again != 0 && retry:
			if m.word().CompareAndSwap(word, word&^again) {
				return false, true
			}
		case word&wishMask != 0:
			if m.word().CompareAndSwap(word, word|word&wishMask<<(outcomeShift-wishShift)) {
				return true, false
			}
		default:
			if m.word().CompareAndSwap(word, word&^(phaseMask|again)|phasePending|accepted) {
				return false, word&again != 0
			}
		}
	}
}

// Met has the holder, who has claimed m and tried it after all, end it as satisfied.
func (m *Machine) Met() { m.word().And(^uint64(outcomeMask)) }

// EndsAs returns the outcome with which the holder is about to end m.
func (m *Machine) EndsAs() Outcome { return endsAs(m.word().Load()) }

func endsAs(word uint64) Outcome {
	if word&outcomeMask == 0 {
		return Satisfied
	}
	return Outcome(word >> outcomeShift & 7)
}

// Ending reports whether m has ended, or is about to.
func (m *Machine) Ending() bool {
	word := m.word().Load()
	return word&phaseMask == phaseEnded || word&(wishMask|outcomeMask) != 0
}

// Settle ends a held operation, which has left its lists, with the outcome of EndsAs; it keeps the cause of a
// cancellation. It reports whether a wish to cancel was set.
func (m *Machine) Settle(cause *error) (wished bool) {
	// The swap below publishes tail. Cause reads it after a load of the state word.
	word := m.word().Load()
	outcome := endsAs(word)
	if outcome == Cancelled {
		m.tail = unsafe.Pointer(cause)
	}
	m.assertOver(outcome, cause)
	before := m.word().Swap(phaseEnded | uint64(outcome)<<outcomeShift | word&identity.Half)
	assertHeld(before)
	return before&wishMask == uint64(Cancelled)<<wishShift
}

// AcceptedBy reports whether m waits in the purgatory with the identity owner, and its registration is over.
func (m *Machine) AcceptedBy(owner uint32) bool {
	word := m.word().Load()
	return word&accepted != 0 && identity.In(word) == owner
}

// Chain puts next behind m. Both have ended, and so have left the timer, whose link they use.
func (m *Machine) Chain(next *Machine) { m.entry.Next = &next.entry.Link }

// Unchain takes m out, and returns what was behind it. The conversion is safe: Chain has been given a Machine.
func (m *Machine) Unchain() (next *Machine) {
	next = (*Machine)(unsafe.Pointer(m.entry.Next))
	m.entry.Next = nil
	return next
}
