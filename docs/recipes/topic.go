package recipes

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/delayedop/purgatory/signals"
)

// topic returns a source of the keys of a topic's records. It has no consumer group, because every replica needs every record.
func topic(name string, brokers ...string) signals.Source[string] {
	return signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NoResetOffset().AtEnd()))
		if err != nil {
			return err
		}
		defer c.Close()
		for standing := false; ; standing = true {
			fetches := c.PollFetches(ctx) // the first fetch says that the client knows the offsets
			if err := fetches.Err(); err != nil {
				return err
			}
			if !standing {
				sink.Missed(signals.ErrSubscribed)
			}
			fetches.EachRecord(func(r *kgo.Record) { sink.Changed(string(r.Key), r.Offset) })
		}
	})
}
