package machine

// Begin makes the caller the holder of op, a new operation, of which m is the machine. op will
// wait for keys keys, 1 to MaxKeys, in the purgatory whose identity is id. Begin returns false
// if op is not new.
func (m *Machine) Begin(op Operation, keys int, id uint32) bool {
	binding := m.entry.OperationBinding(id)
	if !m.word().CompareAndSwap(0, phaseBusy|uint64(keys-1)<<extraShift|binding) {
		return false
	}
	m.op = op
	return true
}

// Try calls TryComplete. Only the holder may call it.
//
// TryComplete is called nowhere else, so that [Nesting] recognises the frame. For the same
// reason the compiler must not inline Try.
//
//go:noinline
func (m *Machine) Try() bool { return m.op.TryComplete() }
