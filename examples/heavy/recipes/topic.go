package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/delayedop/purgatory/signals"
)

// topic returns a source of the keys of a topic's records. It has no consumer group, because every replica needs every record.
func topic(name string, opts ...kgo.Opt) signals.Source[string] {
	return signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		c, err := kgo.NewClient(append([]kgo.Opt{kgo.ConsumeResetOffset(kgo.NoResetOffset())}, opts...)...)
		if err != nil {
			return err
		}
		defer c.Close()
		ends, err := endsOf(ctx, c, name)
		if err != nil {
			return err
		}
		c.AddConsumePartitions(ends.KOffsets())
		sink.Missed(signals.ErrSubscribed) // each later record will be fetched
		for beat := time.Now().Add(time.Second); ; {
			within, cancel := context.WithDeadline(ctx, beat)
			fetches := c.PollFetches(within)
			cancel()
			fetches.EachRecord(func(r *kgo.Record) { sink.Changed(string(r.Key), r.Offset) })
			if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			if time.Now().After(beat) { // the client says nothing of a broker that is away
				if _, err := endsOf(ctx, c, name); err != nil {
					return err
				}
				beat = time.Now().Add(time.Second)
			}
		}
	})
}

// endsOf asks the leader of every partition of a topic where the partition ends.
func endsOf(ctx context.Context, c *kgo.Client, topic string) (kadm.ListedOffsets, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	return ends, err
}
