package timer

import (
	"math"
	"time"
)

// Never is the latest deadline, 292 years after the timer's start. Later deadlines saturate
// to it. It does not pass: no clock reaches it.
const Never = time.Duration(math.MaxInt64 - 1)

// lastTime is where a manual clock stops.
const lastTime = Never - 1

// Deadline returns now+timeout. A negative timeout counts as 0, and the result is at most
// [Never].
func Deadline(now, timeout time.Duration) time.Duration {
	d := now + max(timeout, 0)
	if d < now || d > Never { // overflow
		return Never
	}
	return d
}

// within clamps d to the deadlines that a scheduled entry can have, 1 ns to Never.
func within(d time.Duration) int64 { return int64(min(max(d, 1), Never)) }
