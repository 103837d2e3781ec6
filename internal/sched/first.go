//go:build !interleave

package sched

// First receives from a, b or c, whichever comes first, and returns 0, 1 or 2. Nothing comes from a nil b.
func First(a, b, c <-chan struct{}) int {
	select {
	case <-a:
		return 0
	case <-b:
		return 1
	case <-c:
		return 2
	}
}
