package recipes

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delayedop/purgatory/signals"
)

// channels returns a source of the keys that are published as PUBLISH prefix+key position. It does not use the client's
// PubSub.Channel, which subscribes again after a cut and says nothing of it.
func channels(c *redis.Client, prefix string) signals.Source[string] {
	return signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		self := "probe/" + rand.Text()
		subscription := c.PSubscribe(ctx, prefix+"*")
		defer subscription.Close()
		defer context.AfterFunc(ctx, func() { subscription.Close() })() // Receive does not end with ctx
		if err := subscription.Subscribe(ctx, self); err != nil {
			return err
		}
		for {
			message, err := subscription.Receive(ctx)
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err != nil:
				return err // the next Run subscribes anew
			}
			switch m := message.(type) {
			case *redis.Subscription:
				if m.Channel == self { // the second of the two
					sink.Subscribed(signals.Subscription{Every: time.Second, Limit: 4 * time.Second, Probe: func(ctx context.Context, probe uint64) error {
						return c.Publish(ctx, self, probe).Err()
					}})
				}
			case *redis.Message:
				position, err := strconv.ParseInt(m.Payload, 10, 64)
				if err != nil {
					position = signals.Unknown
				}
				if m.Channel == self {
					sink.Heard(uint64(position))
				} else {
					sink.Changed(strings.TrimPrefix(m.Channel, prefix), position)
				}
			}
		}
	})
}
