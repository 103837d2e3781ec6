//go:build !interleave

package sched

import "time"

// Clock is [Now] and [InBubble] by one reading of the clock.
func Clock() (now time.Time, inBubble bool) {
	now = time.Now()
	return now, now == now.Round(0) //nolint:staticcheck // Equal would compare what Round keeps
}
