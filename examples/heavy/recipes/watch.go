package recipes

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/delayedop/purgatory/signals"
)

// watch returns a source of the keys below prefix. It resumes after the last revision that it has heard.
func watch(c *clientv3.Client, prefix string) signals.Source[string] {
	next := int64(0) // the revision to resume from; 0: the present
	return signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		defer cancel()
		heard := c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(next), clientv3.WithCreatedNotify())
		beat := time.NewTicker(time.Second)
		defer beat.Stop()
		for {
			select {
			case r, ok := <-heard:
				if !ok {
					return ctx.Err()
				}
				if err := r.Err(); err != nil {
					next = 0 // the revision may have been compacted
					return err
				}
				if r.Created {
					sink.Missed(signals.ErrSubscribed)
				}
				for _, e := range r.Events {
					sink.Changed(string(e.Kv.Key), e.Kv.ModRevision)
				}
				next = r.Header.Revision + 1
			case <-beat.C: // the client says nothing of an outage, and the server does not ask again for the right to watch
				within, cancel := context.WithTimeout(ctx, 2*time.Second)
				_, err := c.Get(within, prefix, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
				cancel()
				if err != nil {
					return err
				}
			}
		}
	})
}
