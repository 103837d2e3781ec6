package sched

import "errors"

// Closed reports whether c is closed. Nothing is sent on c. A nil c is not closed.
func Closed(c <-chan struct{}) bool {
	if c == nil { // else the runtime is called
		return false
	}
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ErrBorder is the value of a panic beyond the border of a synctest bubble: it says the rule.
var ErrBorder = errors.New("a timer.SystemTimer, or a purgatory with one, that was made outside of a bubble of testing/synctest is used inside, or the other way round: make it where it is used")
