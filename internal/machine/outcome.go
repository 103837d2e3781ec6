package machine

// Outcome is how an operation ended; package operation names and documents it.
type Outcome uint8

// Outcomes.
const (
	Pending Outcome = iota
	Satisfied
	Forced
	Expired
	Cancelled
	Closed

	NumOutcomes = iota // the number of outcomes, including Pending
)

// Outcome returns how the operation ended, Pending if it has not, or was refused.
func (m *Machine) Outcome() Outcome {
	word := m.word().Load()
	if word&phaseMask != phaseEnded {
		return Pending
	}
	return Outcome(word >> outcomeShift & 7)
}

// Cause returns the cause that Settle was given for a cancelled operation, otherwise nil. The conversion is
// safe: tail of such an operation is a *error.
func (m *Machine) Cause() error {
	if m.Outcome() != Cancelled || m.tail == nil {
		return nil
	}
	return *(*error)(m.tail)
}
