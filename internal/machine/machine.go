// Package machine is the state machine that ends an operation exactly once, the
// operation's watches, and the lists that the watches stand in.
package machine

import (
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/entry"
	"github.com/delayedop/purgatory/internal/identity"
	"github.com/delayedop/purgatory/internal/sched"
)

// Machine is the state machine of one operation. It is safe for concurrent use,
// except for the methods that are documented for the holder only.
//
// There is no mutex: a check that waited for one would wait for another goroutine's TryComplete, and
// one that gave up would lose a wake-up. See docs/decisions.md#a-state-word.
//
// An operation is new, pending, busy, or ended. Busy means that one goroutine, the
// holder, has exclusive access to the operation, to try it or to end it. No goroutine
// waits for a holder. A goroutine that finds one sets a mark in the state word and
// goes on:
//
//	         Begin              Release                 settle
//	new ───────────────► busy ◄─────────► pending   busy ──────► ended
//	                      │     Acquire
//	                      ├ again: "state has changed, try again"  (set by Acquire)
//	                      └ wish:  "end it with this outcome"       (set by claim)
//
// No completion is lost:
//
//  1. A goroutine that changes state does so before it calls Acquire.
//  2. If Acquire finds the operation pending, its caller becomes the holder and
//     tries the operation with the change visible.
//  3. If Acquire finds a holder, it sets again with a compare-and-swap on the word
//     that says busy, so the holder has not let go.
//  4. The only way to let go is Release, a compare-and-swap from a word without a
//     mark. It fails after 3, and the holder tries again. A flag beside a lock fails
//     at this step: the lock can be freed between the last read of the flag and the
//     next (KAFKA-8334).
//
// An operation ends once: only the holder ends it, there is one holder at a time,
// and no transition leads out of ended.
type Machine struct {
	// entry is the operation's entry in the timer. Its word is the state word (see the
	// constants below). entry must be the first field: expire and package purgatory
	// convert pointers.
	entry entry.Entry

	// op is the operation that the machine is part of. It is constant from Begin on, unless
	// the operation is given back.
	op Operation

	// start is when the operation was accepted, on the timer's clock, plus 1 ns; 0 before.
	// The holder writes it once, before the operation is watched.
	start time.Duration

	// tail belongs to the holder. While the operation waits, tail points to an array of
	// extra() Watches, one for each key beyond the first. After the operation was
	// cancelled, tail points to the cause, an error. The outcome in the state word tells
	// the two apart. One pointer for both keeps a user's type with 8 bytes of its own in
	// the size class of 112 bytes. See docs/decisions.md#112-bytes.
	tail unsafe.Pointer

	// first is the watch of the first key. It is inline, so that an operation on one key
	// needs no second allocation.
	first Watch
}

// Layout of the state word, from the lowest bit: the binding of the entry, constant from
// Begin on, which says to which purgatory the operation was submitted; the phase, the two
// marks, and the fields below. A new operation has the word 0.
//
// The owner is in the same word as the phase, so that a goroutine that ends an operation
// on a user's request checks the owner and claims the operation in one step. A refused
// operation may be submitted to another purgatory at any time, even between two steps. See
// docs/decisions.md#the-owner-is-in-the-state-word.
const (
	phaseShift   = 32
	phaseNew     = 0 << phaseShift
	phasePending = 1 << phaseShift
	phaseBusy    = 2 << phaseShift
	phaseEnded   = 3 << phaseShift
	phaseMask    = 3 << phaseShift

	again = 1 << 34

	wishShift    = 35 // the wish, an Outcome; Pending means that there is none
	wishMask     = 7 << wishShift
	outcomeShift = 38      // an Outcome, set by settle
	accepted     = 1 << 41 // set by the first release, cleared by settle
	stopped      = 1 << 42 // a check in order has stopped at the operation; constant from then on
	extraShift   = 48      // number of watches in tail, constant from Begin to settle

	// MaxKeys is the largest number of keys that an operation can wait for.
	MaxKeys = 1 << (64 - extraShift)
)

// Operation returns the operation that m is part of. It must not be called before
// Begin.
func (m *Machine) Operation() Operation { return m.op }

// Entry returns the operation's entry in the timer.
func (m *Machine) Entry() *entry.Entry { return &m.entry }

func (m *Machine) word() *sched.Uint64 { return &m.entry.Word }

func init() { entry.Expire = expire }

// expire ends the operation that e is part of, because its timeout has passed. If another goroutine
// is the holder, claim sets a wish.
//
// The conversion is safe: only Begin makes an entry an operation's, and that entry is the
// first field of a Machine.
func expire(e *entry.Entry) {
	m := (*Machine)(unsafe.Pointer(e))
	if held, _ := m.claim(Expired, m.Owner()); held {
		m.End(Expired, nil)
	}
}

var _ [-unsafe.Offsetof(Machine{}.entry)]struct{} // fails to compile unless entry is the first field

// Start returns when the operation was accepted, on the timer's clock; less than 0 if it has
// not been watched.
func (m *Machine) Start() time.Duration { return m.start - 1 }

// SetStart sets the time that Start returns. Only the holder may call it, before it
// links any Watch.
func (m *Machine) SetStart(now time.Duration) { m.start = now + 1 }

// Owner returns the identity of the purgatory to which the operation was submitted, 0 if
// it is new.
func (m *Machine) Owner() uint32 {
	return identity.In(m.word().Load())
}

// giveBack gives up a held operation that was refused: no list has seen it, and no
// timer holds its entry. The operation becomes new and can be submitted again, perhaps to
// another purgatory. If spent is true, a worker of the timer has claimed the entry and
// may still call claim; the operation then counts as ended and cannot be submitted
// again.
//
// giveBack drops the marks. That is correct, because the calls that have set them have
// reported that they ended nothing.
func (m *Machine) giveBack(spent bool) {
	next := uint64(phaseNew)
	if spent {
		next = phaseEnded | m.word().Load()&identity.Half
	}
	if !spent {
		m.entry.At = 0 // as if it had never been added to a timer, or cancelled there; nobody else reads it
	}
	m.start, m.op = 0, nil
	m.word().Swap(next)
}

func wishOf(word uint64) Outcome { return Outcome(word & wishMask >> wishShift) }

// Acquire makes the caller the holder of a pending operation, to try it. If another
// goroutine is the holder, Acquire tells it to try again.
func (m *Machine) Acquire() (held bool) {
	for {
		word := m.word().Load()
		next := word | again
		switch word & phaseMask {
		case phasePending:
			next = word&^phaseMask | phaseBusy
		case phaseBusy:
			// If the mark is set already, the holder will clear it before it tries
			// again. That try sees the caller's change too.
		default:
			return false
		}
		if m.word().CompareAndSwap(word, next) {
			return word&phaseMask == phasePending
		}
	}
}

// Hold makes the caller the holder if the operation is pending in the purgatory with the
// identity owner. It sets no mark if another goroutine is the holder. It may fail when
// another goroutine changes the state word at the same time.
func (m *Machine) Hold(owner uint32) (held bool) {
	word := m.word().Load()
	return word&phaseMask == phasePending && identity.In(word) == owner && m.word().CompareAndSwap(word, word&^phaseMask|phaseBusy)
}

// claim makes the caller the holder of a pending operation, to end it with o. If
// another goroutine is the holder, o becomes the wish that the holder carries out when
// its try returns false; an earlier wish takes precedence. claim does nothing to an
// operation of another purgatory than owner, and nothing to one that is new or has ended.
func (m *Machine) claim(o Outcome, owner uint32) (held, wished bool) {
	for {
		word := m.word().Load()
		switch {
		case identity.In(word) != owner:
			return false, false
		case word&phaseMask == phasePending:
			if m.word().CompareAndSwap(word, word&^phaseMask|phaseBusy) {
				return true, false
			}
		case word&phaseMask == phaseBusy && word&wishMask == 0:
			if m.word().CompareAndSwap(word, word|uint64(o)<<wishShift) {
				return false, true
			}
		default:
			return false, false
		}
	}
}

// Ending reports whether m has ended, or its holder has been asked to end it.
func (m *Machine) Ending() bool {
	word := m.word().Load()
	return word&phaseMask == phaseEnded || word&wishMask != 0
}

// Asked reports whether another goroutine has asked the holder, who calls Asked, for a try.
func (m *Machine) Asked() bool { return m.word().Load()&again != 0 }

// SetStopped notes that a check in order stops at m: when m leaves without having taken anything,
// those behind it have to be tried. Only the holder may call it.
func (m *Machine) SetStopped() {
	if m.word().Load()&stopped == 0 {
		m.word().Or(stopped)
	}
}

// Stopped reports whether SetStopped was called. Only the holder may call it, or a goroutine that
// takes out a stale watch.
func (m *Machine) Stopped() bool { return m.word().Load()&stopped != 0 }

// Release releases a held operation whose try returned false, unless there is a mark that
// the caller has to follow, as its holder still: it has to end the operation with wish, if
// that is not Pending, or to try again.
//
// If retry is false, the caller will not try again. Release then clears the mark "again"
// and releases the operation; if it returns tryAgain, another goroutine must try the operation.
func (m *Machine) Release(retry bool) (wish Outcome, tryAgain bool) {
	for {
		word := m.word().Load()
		assertHeld(word)
		switch {
		case word&again != 0 && retry:
			if m.word().CompareAndSwap(word, word&^again) {
				return Pending, true
			}
		case word&wishMask != 0:
			return wishOf(word), false
		default:
			if m.word().CompareAndSwap(word, word&^(phaseMask|again)|phasePending|accepted) {
				return Pending, word&again != 0
			}
		}
	}
}

// settle ends a held operation with o, for good. The caller has unlinked the watches,
// or has made them stale. For a cancelled operation, settle keeps cause. It
// returns the wish that was set, whether or not it is the outcome.
func (m *Machine) settle(o Outcome, cause *error) (wish Outcome) {
	// The swap below publishes tail. Cause reads it after a load of the state word.
	if o == Cancelled {
		m.tail = unsafe.Pointer(cause)
	} else if m.tail != nil {
		m.tail = nil
	}
	kept := m.word().Load() & (identity.Half | stopped)
	before := m.word().Swap(phaseEnded | uint64(o)<<outcomeShift | kept)
	assertHeld(before)
	return wishOf(before)
}

// AcceptedBy reports whether m was submitted to the purgatory with the identity owner, the
// registering goroutine has released m, and m has not ended. Once AcceptedBy has returned
// true, the owner of the operation does not change.
func (m *Machine) AcceptedBy(owner uint32) bool {
	word := m.word().Load()
	return word&accepted != 0 && identity.In(word) == owner
}

// End ends m, which the caller holds, with o, in the purgatory that m waits in.
func (m *Machine) End(o Outcome, cause *error) { m.first.list.host.End(m, o, cause) }
