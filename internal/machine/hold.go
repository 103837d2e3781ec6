package machine

// Hold is what the holder of an operation needs in order to try it.
type Hold struct {
	*Machine
	Op Operation // of Machine
}

// Begin makes the caller the holder of Op, a new operation, and sets Machine. Op will wait
// for keys keys, 1 to MaxKeys, in the purgatory whose identity is id. Begin returns false if
// Op is not new. It panics, with Machine unset, if Op is nil or embeds a nil pointer.
func (h *Hold) Begin(keys int, id uint32) bool {
	m := h.Op.machine()
	h.Machine = m
	if !m.word().CompareAndSwap(0, phaseBusy|uint64(keys-1)<<extraShift|m.entry.OperationBinding(id)) {
		return false
	}
	m.entry.Owner = h.Op
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
