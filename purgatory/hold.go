package purgatory

import (
	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/watchers"
)

// maxLooks bounds how often a holder tries one operation in a row because state keeps
// changing. After that a worker tries it: otherwise an operation whose TryComplete
// signals its own key would keep its caller for ever.
const maxLooks = 8

// hold is the state of a goroutine that is the holder of an operation (see
// [machine.Machine]). Its methods try the operation, try it again, let go of it, and find
// the marks that other goroutines have left for the holder.
//
// User code may panic or call runtime.Goexit in any try. Both count as false. A deferred
// function, one for a whole walk or registration, lets the holder go on: after a panic with
// retry, after a Goexit with leave, or with retry on another goroutine.
type hold[K comparable] struct {
	machine.Hold
	p     *DelayedOperationPurgatory[K]
	timed *timedOperation[K] // of a check, with WithSlowCallback; else nil
	key   *K                 // that is checked; nil: several, or none
	looks int                // calls of letGo for the operation

	tries, met int64 // calls of check, and how many returned Satisfied, since they were last reset
}

// take makes the operation of m, which the caller holds, that of h.
func (h *hold[K]) take(m *machine.Machine) {
	h.Machine, h.Op, h.looks = m, m.Operation(), 0
	if h.timed != nil {
		h.timed.Operation, h.Op = h.Op, h.timed
	}
}

// drop drops the operation, which is no longer held.
func (h *hold[K]) drop() {
	h.Machine, h.Op = nil, nil
	if h.timed != nil {
		h.timed.Operation = nil
	}
}

// check is [machine.Hold.Try] for a check, which counts its tries.
func (h *hold[K]) check(release bool) (end machine.Outcome, again bool) {
	h.tries++
	if end, again = h.Try(release); end == machine.Satisfied {
		h.met++
	}
	return end, again
}

// retry goes on after a try that returned false: it lets go of the operation, or tries it
// again while others ask for that. It returns how the caller has to end the operation;
// Pending means that retry has let go of it.
func (h *hold[K]) retry() (end machine.Outcome) {
	for {
		end, again := h.letGo()
		if !again {
			return end
		}
		if end, _ := h.check(false); end == machine.Satisfied {
			return end
		}
	}
}

// logKey returns the key that the log names with a try.
func (h *hold[K]) logKey() K {
	if h.key != nil {
		return *h.key
	}
	return watchers.FirstKey[K](h.Machine)
}

// letGo makes the operation pending, unless another goroutine has left a mark: then the
// caller holds it still, and has to try it again, or to end it with end.
func (h *hold[K]) letGo() (end machine.Outcome, again bool) {
	if h.looks++; h.looks < maxLooks {
		return h.Release(true)
	}
	key, hash := watchers.KeyOf[K](h.Machine) // while it is held: afterwards another goroutine may end it
	wish, look := h.Release(false)
	if look {
		h.p.signal(key, hash, EveryPosition, nil)
	}
	return wish, false
}

// leave is letGo for a holder that must not try the operation again, for example because
// runtime.Goexit ends its goroutine: if another goroutine has asked for a try, a worker
// makes it. leave returns how the caller has to end the operation; Pending means that
// leave has let go of it.
func (h *hold[K]) leave() (end machine.Outcome) {
	h.looks = maxLooks
	end, _ = h.letGo()
	return end
}
