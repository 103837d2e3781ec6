package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delayedop/purgatory/signals"
)

// stream returns a source of the keys of a Redis stream, to which writers add with XADD name MAXLEN ~ 100000 * key K position P.
// It resumes after the last entry that it has heard.
func stream(c *redis.Client, name string) signals.Source[string] {
	last := "" // that entry; empty: none yet
	return signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		c := c.Conn() // if it breaks, the source ends; the client would take another one, and nobody would notice
		defer c.Close()
		end, err := c.XRevRangeN(ctx, name, "+", "-", 1).Result()
		switch {
		case err != nil:
			return err
		case len(end) == 0:
			last = "0-0"
		case last == "" || before(end[0].ID, last): // or an older state of the stream
			last = end[0].ID
		}
		var asked atomic.Uint64
		sink.Subscribed(signals.Subscription{Every: time.Second, Limit: 4 * time.Second, Probe: func(_ context.Context, probe uint64) error {
			asked.Store(probe) // the next answer, even an empty one, has all that was added before
			return nil
		}})
		for {
			probe := asked.Load()
			read, err := c.XRead(ctx, &redis.XReadArgs{Streams: []string{name, last}, Count: 1000, Block: 200 * time.Millisecond}).Result()
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err != nil && !errors.Is(err, redis.Nil): // Nil: there was nothing
				return err
			}
			sink.Heard(probe)
			if len(read) == 0 {
				continue
			}
			oldest, err := c.XRangeN(ctx, name, "-", "+", 1).Result()
			if err != nil {
				return err
			}
			if len(oldest) == 0 || before(last, oldest[0].ID) {
				sink.Missed(signals.ErrOverflow) // MAXLEN may have trimmed what comes after last
			}
			for _, e := range read[0].Messages {
				position, err := strconv.ParseInt(fmt.Sprint(e.Values["position"]), 10, 64)
				if err != nil {
					position = signals.Unknown
				}
				sink.Changed(fmt.Sprint(e.Values["key"]), position)
				last = e.ID
			}
		}
	})
}

// before compares the IDs of entries: a time in milliseconds, and a number.
func before(a, b string) bool {
	var x, y [2]uint64
	_, _ = fmt.Sscanf(a, "%d-%d", &x[0], &x[1])
	_, _ = fmt.Sscanf(b, "%d-%d", &y[0], &y[1])
	return x[0] < y[0] || x[0] == y[0] && x[1] < y[1]
}
