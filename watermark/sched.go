//go:build !interleave

package watermark

import "time"

// clock returns the time, and whether its caller runs in a bubble of testing/synctest: one reading of the clock for both.
func clock() (now time.Time, inBubble bool) {
	now = time.Now()
	return now, now == now.Round(0) //nolint:staticcheck // Equal would compare what Round keeps
}

// first receives from a, b or c, whichever comes first, and returns 0, 1 or 2. Nothing comes from a nil b.
func first(a, b, c <-chan struct{}) int {
	select {
	case <-a:
		return 0
	case <-b:
		return 1
	case <-c:
		return 2
	}
}
