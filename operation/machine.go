package operation

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/delayedop/purgatory/internal/prefetch"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
)

// Machine is the state machine of one operation. It is safe for concurrent use.
//
// An operation is new, pending, busy, or ended. Busy means that one goroutine,
// the holder, has it for itself: to check it or to end it. Nobody ever waits for
// a holder; whoever meets one leaves a mark in the same word and goes on:
//
//	         Begin              Release                 Settle
//	new ───────────────► busy ◄─────────► pending   busy ──────► ended
//	                      │     Acquire
//	                      ├ again: "state has changed, look again"  (left by Acquire)
//	                      └ wish:  "end it as …"                    (left by Claim)
//
// No completion is lost. (1) Whoever changes state does so before Acquire.
// (2) If Acquire finds the operation pending, it becomes the holder and checks,
// with the change visible. (3) If it finds a holder, it sets again by a
// compare-and-swap on the word that says busy, so the holder has not let go.
// (4) The only way to let go is Release (ReleaseUnmarked is the same in short), a
// compare-and-swap to pending from a word that bears no mark; it fails against (3),
// and the holder looks again. A separate flag beside a lock fails at (4): the lock can
// be freed between the last look at the flag and the next (KAFKA-8334).
//
// It ends once. Only the holder ends it, there is one holder at a time, and Settle
// leaves no way back.
type Machine struct {
	// entry is the operation's place in the timer. It is bound to the Operation
	// itself; its word is the state (see the constants below).
	entry timer.TaskEntry

	// start is when the operation was accepted, on the timer's clock. It is
	// written by the holder before the operation is watched, and not again.
	start time.Duration

	// tail is the holder's. While the operation waits it points to the first of
	// the watches beyond the first key, an array of extra(word) Watches; once it
	// has ended as cancelled, to its cause, an error. One pointer for both keeps an
	// operation with 8 bytes of the user's in a size class of 112 bytes.
	tail unsafe.Pointer

	// first is the watch of the first key; inline, so that the usual operation
	// needs no more memory than itself.
	first Watch
}

// The state word.
const (
	phaseNew     = 0
	phasePending = 1
	phaseBusy    = 2
	phaseEnded   = 3
	phaseMask    = 3

	again = 1 << 2

	wishShift    = 3 // an Outcome; Pending: none
	wishMask     = 7 << wishShift
	outcomeShift = 6
	accepted     = 1 << 9 // from the first Release to Settle
	extraShift   = 16     // number of watches in tail, constant from Begin to Settle

	// MaxKeys is the largest number of keys that an operation can wait for.
	MaxKeys = 1 << (32 - extraShift)
)

// Of returns op's machine.
func Of(op Operation) *Machine { return op.machine() }

// Operation returns the operation that m is part of. Valid from Begin on.
func (m *Machine) Operation() Operation { return m.entry.Task().(Operation) }

// Entry returns m's place in the timer.
func (m *Machine) Entry() *timer.TaskEntry { return &m.entry }

func (m *Machine) word() *atomic.Uint32 { return m.entry.Word() }

// Entries returns the places in the timer of machines, in the same memory: a machine
// begins with its entry.
func Entries(machines []*Machine) []*timer.TaskEntry {
	return unsafe.Slice((**timer.TaskEntry)(unsafe.Pointer(unsafe.SliceData(machines))), len(machines))
}

var _ [-unsafe.Offsetof(Machine{}.entry)]struct{} // it does

// Start returns when the operation was accepted, on the timer's clock.
func (m *Machine) Start() time.Duration { return m.start }

// SetStart sets what Start returns. For the holder, before any Watch is linked.
func (m *Machine) SetStart(now time.Duration) { m.start = now }

// Begin makes the caller the holder of a new operation that is to wait for this
// many keys, 1 to MaxKeys. It fails if the operation is not new.
func (m *Machine) Begin(op Operation, keys int) bool {
	sched.Yield()
	if !m.word().CompareAndSwap(phaseNew, phaseBusy|uint32(keys-1)<<extraShift) {
		return false
	}
	m.entry.Bind(op)
	return true
}

// Reject gives up a held operation that was not accepted: it can be submitted again.
// If one of its watches has been linked meanwhile (used) it is spent instead, for
// somebody may still have it from there: it ends without an outcome, and without
// callbacks. Its watches must be unlinked and its entry not scheduled. Marks are void:
// those who left them were told that they had ended nothing. The wish is returned.
func (m *Machine) Reject(used bool) (wish Outcome) {
	m.tail = nil
	next := uint32(phaseNew)
	if used {
		next = phaseEnded
	}
	sched.Yield()
	word := m.word().Swap(next)
	return Outcome(word & wishMask >> wishShift)
}

// Acquired is what Acquire found.
type Acquired uint8

// Results of Acquire.
const (
	Held   Acquired = iota // the caller is the holder now
	Marked                 // somebody else is, and will look again
	Over                   // the operation has ended, or was never accepted
)

// Acquire makes the caller the holder of a pending operation, to check it; a
// holder that is there already is told to look again.
func (m *Machine) Acquire() Acquired {
	for {
		sched.Yield()
		word := m.word().Load()
		switch word & phaseMask {
		case phasePending:
			if m.word().CompareAndSwap(word, word&^phaseMask|phaseBusy) {
				return Held
			}
		case phaseBusy:
			// A mark that is set already was set before this load, and is
			// cleared before the next look: that look sees our change too.
			if word&again != 0 || m.word().CompareAndSwap(word, word|again) {
				return Marked
			}
		default:
			return Over
		}
	}
}

// Claim makes the caller the holder of a pending operation, to end it with o. If
// there is a holder already, o becomes the wish that the holder carries out when
// its check says no, unless there is an earlier wish. It reports whether the
// caller holds the operation.
func (m *Machine) Claim(o Outcome) (held bool) {
	held, _ = m.ClaimOrWish(o)
	return held
}

// Hold makes the caller the holder of a pending operation, and leaves no mark if it
// is not.
func (m *Machine) Hold() (held bool) {
	sched.Yield()
	word := m.word().Load()
	return word&phaseMask == phasePending && m.word().CompareAndSwap(word, word&^phaseMask|phaseBusy)
}

// ClaimOrWish is Claim, and reports also whether it left the wish.
func (m *Machine) ClaimOrWish(o Outcome) (held, wished bool) {
	for {
		sched.Yield()
		word := m.word().Load()
		switch {
		case word&phaseMask == phasePending:
			if m.word().CompareAndSwap(word, word&^phaseMask|phaseBusy) {
				return true, false
			}
		case word&phaseMask == phaseBusy && word&wishMask == 0:
			if m.word().CompareAndSwap(word, word|uint32(o)<<wishShift) {
				return false, true
			}
		default:
			return false, false
		}
	}
}

// Verdict is what the holder has to do after a check that said no.
type Verdict uint8

// Results of Release.
const (
	Released  Verdict = iota // nothing: the operation is pending, the caller no longer holds it
	LookAgain                // check once more: state has changed since the check began
	Carry                    // end it with the wish that somebody left
)

// ReleaseUnmarked is Release where there is no mark, as is usual; it does nothing and
// says no if there is one.
func (m *Machine) ReleaseUnmarked() bool {
	sched.Yield()
	word := m.word().Load()
	return word&(again|wishMask) == 0 && m.word().CompareAndSwap(word, word&^phaseMask|phasePending|accepted)
}

// Release lets go of a held operation whose check said no, unless there is a mark.
// With patient false it does not ask for another look: it clears the mark, and if
// relook is true the caller has to see to it that the operation is checked again.
func (m *Machine) Release(patient bool) (v Verdict, wish Outcome, relook bool) {
	for {
		sched.Yield()
		word := m.word().Load()
		switch {
		case word&again != 0 && patient:
			if m.word().CompareAndSwap(word, word&^again) {
				return LookAgain, Pending, false
			}
		case word&wishMask != 0:
			return Carry, Outcome(word & wishMask >> wishShift), false
		default:
			if m.word().CompareAndSwap(word, word&^(phaseMask|again)|phasePending|accepted) {
				return Released, Pending, word&again != 0
			}
		}
	}
}

// ClearWish forgets a held operation's wish: its holder fulfils it in another way.
func (m *Machine) ClearWish() {
	sched.Yield()
	m.word().And(^uint32(wishMask))
}

// Settle ends a held operation with o, for good. Its watches have been unlinked, or
// handed to a purge. The cause is kept for a cancelled one. It returns the wish
// that was left, fulfilled or not.
func (m *Machine) Settle(o Outcome, cause *error) (wish Outcome) {
	if o == Cancelled {
		m.tail = unsafe.Pointer(cause)
	} else if m.tail != nil {
		m.tail = nil
	}
	sched.Yield()
	word := m.word().Swap(phaseEnded | uint32(o)<<outcomeShift)
	return Outcome(word & wishMask >> wishShift)
}

// Accepted reports whether the registration has let go of m, and m has not ended. What
// the registration has written, Entry's binding for one, can be read then by anybody.
func (m *Machine) Accepted() bool {
	sched.Yield()
	return m.word().Load()&accepted != 0
}

// Outcome returns how the operation ended, Pending if it has not.
func (m *Machine) Outcome() Outcome {
	sched.Yield()
	word := m.word().Load()
	if word&phaseMask != phaseEnded {
		return Pending
	}
	return Outcome(word >> outcomeShift & 7)
}

func (m *Machine) cause() error {
	if m.Outcome() != Cancelled || m.tail == nil {
		return nil
	}
	return *(*error)(m.tail)
}

// expire is called by the timer. If somebody holds the operation, expiry is
// left to them as a wish.
func (m *Machine) expire() {
	if m.Claim(Expired) {
		m.End(Expired, nil)
	}
}

// End ends m, which the caller holds, in the purgatory that it waits in.
func (m *Machine) End(o Outcome, cause *error) {
	if extra := m.Extra(); extra != nil {
		// Who registers and who ends an operation are mostly on different processors.
		m.first.prefetch()
		for i := range min(len(extra), prefetch.Most) {
			extra[i].prefetch()
		}
	}
	m.first.list.home.End(m, o, cause)
}
