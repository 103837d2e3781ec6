//go:build interleave

package watermark

import (
	"time"

	explored "github.com/delayedop/purgatory/proof/explore/sched"
)

func clock() (now time.Time, inBubble bool) { return explored.Now(), false }

var first = explored.First
