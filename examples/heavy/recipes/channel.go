package recipes

import (
	"context"
	"errors"
	"net"
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
		subscription := c.PSubscribe(ctx, prefix+"*")
		defer subscription.Close()
		defer context.AfterFunc(ctx, func() { subscription.Close() })() // Receive does not end with ctx
		for asked := false; ; {
			message, err := subscription.ReceiveTimeout(ctx, 10*time.Second)
			var silence net.Error
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case errors.As(err, &silence) && silence.Timeout() && !asked:
				if err := subscription.Ping(ctx); err != nil {
					return err
				}
				asked = true
				continue
			case err != nil:
				return err // the next Run subscribes anew
			}
			asked = false
			switch m := message.(type) {
			case *redis.Subscription:
				sink.Missed(signals.ErrSubscribed)
			case *redis.Message:
				position, err := strconv.ParseInt(m.Payload, 10, 64)
				if err != nil {
					position = signals.Unknown
				}
				sink.Changed(strings.TrimPrefix(m.Channel, prefix), position)
			}
		}
	})
}
