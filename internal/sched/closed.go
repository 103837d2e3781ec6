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
