package machine

import "github.com/delayedop/purgatory/internal/identity"

// Hold is what the holder of an operation needs in order to try it.
type Hold struct {
	*Machine
	Op Operation // of Machine
}

// Begin makes the caller the holder of Op, a new operation, and sets Machine. Op will wait
// for keys keys, 1 to MaxKeys, in the purgatory whose identity is id. Begin returns false if
// Op is not new. It panics, with Machine unset, if Op is nil or embeds a nil pointer.
func (h *Hold) Begin(keys int, id uint32) bool {
	m := h.Op.embedOperationDelayedOperation()
	h.Machine = m
	binding := m.entry.OperationBinding(id)
	busy := phaseBusy | uint64(keys-1)<<extraShift | binding
	if !m.word().CompareAndSwap(0, busy) && !m.word().CompareAndSwap(binding, busy) { // see Renew
		return false
	}
	if m.op == nil {
		m.op = h.Op
	}
	return true
}

// Renew makes an operation that has ended new again, in the same purgatory. It fails, and the
// operation must not be used again, if its timeout has passed: then a worker of the timer may
// still call Expire. The caller knows that the operation has left its lists, that its callbacks
// have returned, and that no goroutine that has found it in a list before may still claim it.
//
// A goroutine that has found the operation in a list before may still acquire it, and then tries
// it once more than necessary. So its binding and its owner stay as they are.
func (m *Machine) Renew() bool {
	if m.entry.Deadline() != 0 { // final: who ended the operation has cancelled the entry before
		return false
	}
	m.tail = nil
	m.word().Store(m.word().Load() & identity.Half)
	return true
}

// Try calls the operation's TryComplete. If that returns true, Try returns Satisfied, and the
// caller has to end the operation. If not, Try releases the operation, if release is set and
// no goroutine has left a mark. Otherwise it returns again: the caller is still the holder, and
// has to call Release.
//
// TryComplete is called nowhere else, so that [Nesting] recognises the frame. For the same
// reason the compiler must not inline Try.
//
//go:noinline
func (h *Hold) Try(release bool) (end Outcome, again bool) {
	if h.Op.TryComplete() {
		return Satisfied, false
	}
	return Pending, !release || !h.tryRelease()
}
