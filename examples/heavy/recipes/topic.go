package recipes

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/delayedop/purgatory/signals"
)

// topic returns a source of the keys of a topic's records. It has no consumer group, because every replica needs every record.
func topic(name string, brokers ...string) signals.Source[string] {
	return signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
		if err != nil {
			return err
		}
		defer c.Close()
		ends, err := kadm.NewClient(c).ListEndOffsets(ctx, name) // of every partition
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			return err
		}
		c.AddConsumePartitions(ends.KOffsets())
		sink.Missed(signals.ErrSubscribed) // each later record will be fetched
		for {
			fetches := c.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return err
			}
			fetches.EachRecord(func(r *kgo.Record) { sink.Changed(string(r.Key), r.Offset) })
		}
	})
}
