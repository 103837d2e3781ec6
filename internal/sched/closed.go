package sched

// Closed reports whether c is closed. Nothing is sent on c. A nil c is not closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Border is the value of a panic beyond the border of a synctest bubble: it says the rule.
type Border string

// Error returns the rule.
func (b Border) Error() string { return string(b) }

// BeyondBorder is that of a timer.
const BeyondBorder Border = "a timer.SystemTimer, or a purgatory with one, that was made outside of a bubble of testing/synctest is used inside, or the other way round: make it where it is used"
