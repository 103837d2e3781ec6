package signals

import (
	"context"
	"time"

	"github.com/delayedop/purgatory/internal/sched"
)

// backoff is a pause that doubles.
type backoff struct {
	first, longest time.Duration
	last           time.Duration // the last pause before it was shortened at random; 0: no pause since reset
}

// next returns the next pause, shortened at random by up to one half.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, b.first), b.longest)
	return b.last - time.Duration(sched.Dice(int64(b.last/2+1)))
}

// reset makes the next pause the first one.
func (b *backoff) reset() { b.last = 0 }

// sleep waits for d. It reports whether d has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	return sched.Sleep(d, nil, ctx.Done(), nil) == sched.Elapsed
}
